//! What black-box tests share.

pub mod differential;
