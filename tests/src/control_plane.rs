//! The operations of a control plane that scenarios use: a server in another process, or a simulated one in this thread.

use std::time::Duration;

use crate::differential::{ApiClient, HttpAnswer, RequestStep};

/// A control plane that runs scenarios, with its clock.
pub trait ControlPlane {
    fn get(&self, path: &str) -> Result<HttpAnswer, String> {
        self.send("GET", path, &RequestStep::default(), Vec::new())
    }

    /// Sends one request. Only a transport error is an `Err`; an HTTP error is an answer.
    fn send(&self, method: &str, path: &str, step: &RequestStep, body: Vec<u8>)
    -> Result<HttpAnswer, String>;

    /// Lets this much time pass on the clock of the control plane, which may be virtual.
    fn pause(&self, time: Duration);
}

impl ControlPlane for ApiClient {
    fn send(
        &self,
        method: &str,
        path: &str,
        step: &RequestStep,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        ApiClient::send(self, method, path, step, body)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
