//! The life of a TrainJob: status, conditions, time to live and deadline.
