//! The JobSet, and what stands beside it, that a TrainJob and its runtime yield.
