"""Two ranks of every on-policy algorithm take the step of one rank with both batches joined, and stay equal."""

import pytest
from commands import SUPPORT, run_on_ranks


@pytest.mark.slow
def test_ranks_with_parts_of_a_batch_take_the_step_of_one_rank_with_the_whole(tmp_path):
    status, _, err = run_on_ranks("on_policy_ranks", cwd=tmp_path, PYTHONPATH=SUPPORT)
    assert status == 0, err
