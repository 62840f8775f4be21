"""The membership, in both group protocols."""
