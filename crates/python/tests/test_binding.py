"""Outputs that are the next run's inputs."""

import threading

import numpy as np
import pytest
from conftest import counter

import streampool as sp

WORDS = 5


@pytest.fixture(scope="module")
def decoder():
    return sp.Session(counter(WORDS), "host")


def spoken(binding, words, steps):
    said = []
    for _ in range(steps):
        outputs = binding.run({"input_ids": np.array([words], np.int64)})
        assert list(outputs) == ["logits"]
        words = [int(outputs["logits"][0, -1].argmax())]
        said += words
    return said


def fresh(session):
    binding = session.bind()
    assert isinstance(binding, sp.Binding) and binding.carry_caches() == 1
    binding.set_zeros(batch=1, past=0)
    return binding


def test_a_cache_goes_from_run_to_run(decoder):
    binding = fresh(decoder)
    assert spoken(binding, [0, 1], 5) == [2, 0, 1, 2, 3]
    np.testing.assert_array_equal(binding.get("past.0"), [[0, 1, 2, 0, 1, 2]])
    # What was there goes on elsewhere.
    other = decoder.bind()
    other.carry("present.0", "past.0")
    other.set("past.0", binding.get("past.0"))
    assert spoken(other, [3], 1) == spoken(binding, [3], 1) == [4]
    binding.clear()
    assert binding.get("past.0") is None
    with pytest.raises(sp.InvalidInput, match="not given"):
        spoken(binding, [0], 1)


def test_each_thread_has_a_cache(decoder):
    said = []

    def speak():
        said.append(spoken(fresh(decoder), [0, 1], 70))

    threads = [threading.Thread(target=speak) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 8 and all(one == said[0] for one in said)


def test_wrong_uses_say_what_is_right(decoder):
    binding = decoder.bind()
    for call, told in [
        (lambda: binding.carry("nothing", "past.0"), "one of logits, present.0"),
        (lambda: binding.carry("present.0", "nothing"), "one of input_ids, past.0"),
        (lambda: binding.carry("present.0", "input_ids"), "cannot be"),
        (lambda: binding.set("past.0", np.zeros((1, 1, 1), np.float32)), "past"),
    ]:
        with pytest.raises(sp.Error, match=told):
            call()
    binding.carry_caches()
    with pytest.raises(sp.Error, match="already"):
        binding.carry_caches()
    with pytest.raises(sp.Error, match="unknown size"):
        binding.set_zeros(batch=1)
