//! Runs controllers against a remote API server until a signal comes.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use muster_api::client::Kind;
use muster_cluster::{ConnectError, KubeApi, Projection, REQUESTS_IN_FLIGHT_MAX};
use muster_control::driver::{ControllerRuntime, Inspector, RuntimeCallbacks};
use muster_control::{Controller, RuntimeOptions};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::ports::SystemClock;

/// Concurrent Event requests: more than one, so that they do not wait for a full round trip each.
const EVENTS_IN_FLIGHT_MAX: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ClusterRuntimeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    Stopped,
    /// The controller loop panicked; the log has the error.
    Crashed,
    /// The `cancel` future resolved.
    Cancelled,
}

/// A tokio runtime, the connection to an API server, and the signals that stop it.
pub struct ClusterRuntime {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    api: KubeApi,
}

impl ClusterRuntime {
    /// Connects. Signal handlers are installed first: a signal during the start stops the process cleanly, too.
    ///
    /// # Errors
    /// The API server cannot be reached, or rejects the credentials.
    pub fn connect(kubeconfig: Option<&Path>) -> Result<ClusterRuntime, ClusterRuntimeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (interrupt, terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let api = runtime.block_on(KubeApi::connect(kubeconfig))?;
        Ok(ClusterRuntime { runtime, interrupt, terminate, api })
    }

    /// The same connection, whose watches of these kinds are filtered or stripped to metadata before they reach a cache.
    pub(crate) fn with_projections(
        self,
        shares: impl IntoIterator<Item = (Kind, Projection)>,
    ) -> ClusterRuntime {
        ClusterRuntime { api: self.api.with_projections(shares), ..self }
    }

    pub fn api(&self) -> &KubeApi {
        &self.api
    }

    /// Enters the tokio runtime, so that tasks can be spawned on it.
    pub fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Drives a future; `None` when a signal came first.
    pub fn until_signal<T>(&mut self, for_what: impl Future<Output = T>) -> Option<T> {
        let ClusterRuntime { runtime, interrupt, terminate, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
                came = for_what => Some(came),
            }
        })
    }

    /// Drives a future that must not be dropped half-way: a signal calls `stop`, and the future is still awaited.
    pub(crate) fn run_to_completion<T>(
        &mut self,
        stop: impl FnOnce(),
        for_what: impl Future<Output = T>,
    ) -> T {
        let ClusterRuntime { runtime, interrupt, terminate, .. } = self;
        runtime.block_on(async {
            let mut for_what = pin!(for_what);
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                came = &mut for_what => return came,
            }
            stop();
            for_what.await
        })
    }

    /// Runs the controllers until a signal comes, they crash, or `cancel` resolves. `ready` is called when their caches are
    /// synced, `started` at once with an inspector of the loop.
    ///
    /// # Errors
    /// The controller thread cannot be started.
    pub fn run_controllers(
        &mut self,
        controllers: Vec<Box<dyn Controller>>,
        ready: impl FnOnce(&str) + Send + 'static,
        started: impl FnOnce(Inspector),
        beside: impl Future<Output = ()>,
    ) -> io::Result<RunOutcome> {
        // Twice the in-flight limit of the client: the next requests are ready as soon as a slot is free.
        let options = RuntimeOptions {
            requests_in_flight_max: 2 * REQUESTS_IN_FLIGHT_MAX,
            events_in_flight_max: EVENTS_IN_FLIGHT_MAX,
        };
        let (crash, crashed) = oneshot::channel();
        let server = self.api.server().to_owned();
        let tidings = RuntimeCallbacks {
            ready: Box::new(move || ready(&server)),
            crashed: Box::new(move || {
                let _ = crash.send(());
            }),
        };
        // Outside the tokio runtime: the controller loop has its own thread and blocks on it.
        let (api, term) = self.api.for_epoch();
        let api = Arc::new(api);
        let shell = ControllerRuntime::start(api, Arc::new(SystemClock), controllers, options, tidings)?;
        started(shell.window());
        let end = self.until_signal(async {
            tokio::select! {
                Ok(()) = crashed => RunOutcome::Crashed,
                () = beside => RunOutcome::Cancelled,
            }
        });
        if end == Some(RunOutcome::Cancelled) {
            // Another replica may hold the Lease by now: the epoch ends first, so that not even a shutdown request is sent.
            term.end();
        }
        shell.stop();
        Ok(end.unwrap_or(RunOutcome::Stopped))
    }
}
