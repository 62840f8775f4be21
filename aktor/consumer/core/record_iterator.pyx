# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled iterator of a consumer, and what it shares with `iteration`.

It hands out the records of a batch one by one as long as there is no other work. If there is, and
for the first record of each batch, it calls `KafkaConsumer.__next__`, which does all the work of an
iteration. Where this module is not compiled (see `aktor.compiled`), that method is called for every
record.

The module does not enable the GIL in a Python without one. Several iterators may take from the same
batch, also on several threads, and `Attention.call` is called by any thread. Hence what two threads
may touch at once is in critical sections, which cost nothing where there is a GIL.
"""

cimport cython
from cpython.object cimport PyObject_Size
from cpython.pythread cimport PyThread_get_thread_ident

import os

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *time)

cdef extern from *:
    """
    /* The clock of `time.monotonic`, to some milliseconds, where it can be had more cheaply. */
    #ifdef CLOCK_MONOTONIC_COARSE
    #define AKTOR_CLOCK CLOCK_MONOTONIC_COARSE
    #elif defined(__APPLE__)
    #define AKTOR_CLOCK CLOCK_UPTIME_RAW /* there, CLOCK_MONOTONIC goes on during sleep */
    #else
    #define AKTOR_CLOCK CLOCK_MONOTONIC
    #endif
    """
    int AKTOR_CLOCK

#: Counts the forks that led to this process (as `_forks` in `guard`).
cdef int forks = 0


def _count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_count_fork)


cdef class Batch:
    """See `batch.Batch`."""

    cdef readonly object state, epoch
    cdef readonly list records
    cdef public Py_ssize_t handed, told
    cdef readonly double first_at, last_at

    def __init__(self, state, list records):
        self.state = state
        self.epoch = 0 if state is None else state.epoch
        self.records = records

    def next(self, double now):
        """The next record, which is handed out; None if there is no more."""
        cdef Py_ssize_t index
        with cython.critical_section(self):
            index = self.handed
            if index >= len(self.records):
                return None
            self.last_at = now
            if index == self.told:
                self.first_at = now
            self.handed = index + 1
            return self.records[index]

    def take_back(self, Py_ssize_t handed):
        """Only so many of the records that were handed out have reached the application."""
        self.handed = handed

    def tell(self):
        """The records that were handed out since this was last called."""
        cdef Py_ssize_t told = self.told
        self.told = self.handed
        return self.records[told : self.handed]


cdef class Attention:
    """See `batch.Attention`."""

    #: How often it was called. Each iterator notes the number when it looks for the work.
    cdef long long calls

    def call(self):
        """There is other work, or another method was called. From any thread."""
        with cython.critical_section(self):
            self.calls += 1

    cdef long long look(self):
        """An iterator looks for the work now, and the other iterators must look before they hand
        out a record. Returns the number of calls: one that comes after this is seen by it."""
        with cython.critical_section(self):
            self.calls += 1
            return self.calls


cdef class RecordIterator:
    """Hands out the records of `iteration`'s batches; other work is done by `next_record`."""

    cdef object _next_record, _iteration, _events
    #: The clock, if it is not `time.monotonic`.
    cdef object _clock
    cdef Attention _attention
    cdef Batch _batch
    cdef unsigned long _thread
    cdef double _look_at
    cdef int _forks
    #: How often `_attention` had been called when this iterator looked; -1: it has to look.
    cdef long long _seen

    def __init__(self, next_record, iteration, Attention attention, events, clock=None):
        self._next_record = next_record
        self._iteration = iteration
        self._events = events
        self._attention = attention
        self._seen = -1
        self._clock = clock

    def __iter__(self):
        return self

    def __next__(self):
        cdef Batch batch
        cdef Py_ssize_t index
        cdef double now
        # Another thread that is here by mistake must not drop the batch before this one holds it.
        with cython.critical_section(self):
            batch = self._batch
        if (
            self._attention.calls == self._seen
            and batch.handed < len(batch.records)
            and self._thread == <unsigned long>PyThread_get_thread_ident()
            and self._forks == forks
            and not PyObject_Size(self._events)
        ):
            now = self._now()
            if now <= self._look_at:
                index = batch.handed
                batch.last_at = now
                if index == batch.told:
                    batch.first_at = now
                batch.handed = index + 1
                return batch.records[index]
        return self._look()

    cdef double _now(self) except *:
        cdef timespec now
        if self._clock is not None:
            return self._clock()
        clock_gettime(AKTOR_CLOCK, &now)
        return now.tv_sec + now.tv_nsec * 1e-9

    cdef object _look(self):
        cdef object record
        # Before the other work: a call of `Attention` from now on is seen before the next record.
        cdef long long seen = self._attention.look()
        self._seen = -1  # it looks again if this look ends by an error
        self._hold(None)
        record = self._next_record()
        self._seen = seen
        self._hold(self._iteration.batch)
        self._look_at = self._iteration.look_at
        self._thread = PyThread_get_thread_ident()
        self._forks = forks
        return record

    cdef void _hold(self, Batch batch):
        with cython.critical_section(self):
            self._batch = batch
