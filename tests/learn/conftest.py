"""What tests of updates share."""

import pytest

from tfbaselines.learn import exchange


@pytest.fixture
def one_message_a_step():
    """The communicators here average, but have no batches of other ranks."""
    exchange.set_exchange("gradients")
    yield
    exchange.set_exchange("auto")
    exchange.news()
