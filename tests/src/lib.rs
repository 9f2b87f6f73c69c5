//! What black-box tests share.

pub mod differential;
pub mod real;
