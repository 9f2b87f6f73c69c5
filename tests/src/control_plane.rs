//! What scenarios need of a control plane, be it a server in another process or a simulated one in this thread.

use std::time::Duration;

use crate::differential::{Answer, Server, Step};

/// A control plane that scenarios are played on, and the clock that it lives by.
pub trait ControlPlane {
    /// Reads one path.
    ///
    /// # Errors
    /// The plane does not answer.
    fn get(&self, path: &str) -> Result<Answer, String> {
        self.send("GET", path, &Step::default(), Vec::new())
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The plane does not answer.
    fn send(&self, method: &str, path: &str, step: &Step, body: Vec<u8>) -> Result<Answer, String>;

    /// Lets this much time pass by the clock of the plane.
    fn pause(&self, time: Duration);
}

impl ControlPlane for Server {
    fn send(&self, method: &str, path: &str, step: &Step, body: Vec<u8>) -> Result<Answer, String> {
        Server::send(self, method, path, step, body)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
