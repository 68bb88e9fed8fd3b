"""What the engine asks of SQLAlchemy, of whichever version."""

from placement.db.engine import make_engine


def test_a_returned_connection_is_not_rolled_back() -> None:
    """Each rollback would be a round trip; transactions end with statements of their own."""
    engine = make_engine("sqlite://")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")

    with engine.connect() as same:
        driver = same.connection.dbapi_connection
        assert driver is not None
        assert driver.in_transaction
        same.exec_driver_sql("ROLLBACK")
    engine.dispose()
