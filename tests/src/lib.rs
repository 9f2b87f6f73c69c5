//! What black-box tests share.

pub mod beside;
pub mod clients;
pub mod corpus;
pub mod differential;
pub mod documents;
pub mod gangs;
pub mod jobsets;
pub mod lives;
pub mod operators;
pub mod pages;
pub mod peer;
pub mod placements;
pub mod plane;
pub mod planes;
pub mod played;
pub mod proxy;
pub mod queued;
pub mod queues;
pub mod random;
pub mod real;
pub mod reports;
pub mod train_queues;
pub mod training;
pub mod trains;
pub mod visible;
pub mod witness;
