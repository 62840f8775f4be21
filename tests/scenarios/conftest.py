"""The helpers' assertions explain themselves as the tests' do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.scenarios.history", "tests.scenarios.world")
