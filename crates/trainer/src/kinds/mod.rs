//! The kinds: their definitions, what is filled in, what is refused, and the runtimes that are shipped.
