//! TrainJobs and their runtimes: kinds, names and facts.
