"""The CPU driver of teeny: native programs, a thread pool and asynchronous runs."""
