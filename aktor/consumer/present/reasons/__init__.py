"""Why nothing is delivered: two tables of reasons, in order of priority, and the sentence of `why`.

Each reason is a function of the picture: it says None if it does not apply, else a `Reason`, which
has what `status()`, `why()`, `healthy` and the event `delivery.stalled` tell. A guess is no reason:
each text says only what an owner has published.
"""
