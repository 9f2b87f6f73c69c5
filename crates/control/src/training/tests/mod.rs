//! The TrainJob controller: requests, events and state, under crashes and failed requests.

mod bounds;
mod children;
mod fixture;
mod lifecycle;
mod request_errors;
