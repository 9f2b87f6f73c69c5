//! The simulated world and what is checked on it.

mod garbage;
mod words;
mod worlds;
