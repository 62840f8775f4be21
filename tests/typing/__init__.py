"""Programs of users, for type checkers: `make lint` checks them, nothing runs them.

In `user` and `aio_user` every expression has a type that says something (mypy's
disallow_any_expr, pyright's strict mode), and it is the one that `assert_type` names. In `mistakes`
each line that says so is refused: a comment that ignores no error is an error itself.
"""
