"""The script that Alembic runs for every upgrade and stamp, on a connection of placement.db.schema."""

from alembic import context

from placement.db import models

# The connection is inside the transaction of the caller, which commits.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.whole_metadata(),
    render_as_batch=True,
    rows=context.config.attributes.get("rows"),
    commit=context.config.attributes.get("commit"),
)
context.run_migrations()
