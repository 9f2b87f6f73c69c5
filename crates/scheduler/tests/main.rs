//! The scheduler from outside: placement cases as data, the life of the queue, and laws that hold whatever happens.

mod build;
mod cases;
mod gangs;
mod laws;
mod queue;
mod storage;
