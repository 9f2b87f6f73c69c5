//! Tables of cases and sequences, one module for each part.

mod jobs;
