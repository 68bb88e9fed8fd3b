"""A chunk that is none, as gunicorn hands it to the service: its reader raises errors of its own."""

import pytest
from gunicorn.http.body import Body, ChunkedReader
from gunicorn.http.unreader import IterUnreader

from tests.support.service import running


@pytest.mark.parametrize(
    "sent",
    [b"zz\r\nabc\r\n0\r\n\r\n", b"-5\r\nabcde\r\n0\r\n\r\n", b"2\r\nabcdef\r\n0\r\n\r\n", b"5\r\nab"],
    ids=["no number", "negative", "longer than it says", "broken off"],
)
def test_a_chunk_that_is_none_is_the_fault_of_the_client(sent: bytes) -> None:
    """400 with our document, and not the 500 of an error that nobody expected."""
    body = Body(ChunkedReader(None, IterUnreader(iter([sent]))))
    environ = {
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_TYPE": "application/json",
    }
    with running() as service:
        answer = service.request("POST", "/resource_providers", version="1.39", environ=environ)

    assert answer.status_int == 400, answer.text
    assert answer.json["errors"][0]["status"] == 400
