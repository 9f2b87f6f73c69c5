//! Controllers of ours against an API server elsewhere, until a signal comes.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use muster_api::port::Kind;
use muster_cluster::{CALLS_IN_FLIGHT_MAX, ConnectError, KubeApi, Share};
use muster_control::run::{Shell, Tidings, Window};
use muster_control::{Controller, LoopOptions};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::ports::SystemClock;

/// Events under way at any time: some more than one, which would wait for the way there and back.
const NOTES_IN_FLIGHT_MAX: usize = 4;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum AwayError {
    /// The server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By a signal.
    Stopped,
    /// By an error of the controllers' own, told on the log.
    Crashed,
    /// What was waited for beside them came.
    Beside,
}

/// A connection, and the signals that end it.
pub struct Away {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    api: KubeApi,
}

impl Away {
    /// Connects. Signals count from here on: a stop during the start is a stop as well.
    ///
    /// # Errors
    /// There is no such server, or it refuses us.
    pub fn connect(kubeconfig: Option<&Path>) -> Result<Away, AwayError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (interrupt, terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let api = runtime.block_on(KubeApi::connect(kubeconfig))?;
        Ok(Away { runtime, interrupt, terminate, api })
    }

    /// The same connection, over which of some kinds only a share is taken.
    pub(crate) fn taking(self, shares: impl IntoIterator<Item = (Kind, Share)>) -> Away {
        Away { api: self.api.taking(shares), ..self }
    }

    /// The connection.
    pub fn api(&self) -> &KubeApi {
        &self.api
    }

    /// Where tasks of this connection run.
    pub fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Waits for something; `None` when a signal came before.
    pub fn wait<T>(&mut self, for_what: impl Future<Output = T>) -> Option<T> {
        let Away { runtime, interrupt, terminate, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
                came = for_what => Some(came),
            }
        })
    }

    /// Waits for something that is not to be broken off: when a signal comes it is told to stop, and waited for.
    pub(crate) fn wait_out<T>(&mut self, stop: impl FnOnce(), for_what: impl Future<Output = T>) -> T {
        let Away { runtime, interrupt, terminate, .. } = self;
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

    /// Runs these until a signal comes, they crash, or something beside them is over; `ready` when their caches are
    /// filled, `started` at once with a way to see them.
    ///
    /// # Errors
    /// The system refuses to give a thread.
    pub fn run(
        &mut self,
        controllers: Vec<Box<dyn Controller>>,
        ready: impl FnOnce(&str) + Send + 'static,
        started: impl FnOnce(Window),
        beside: impl Future<Output = ()>,
    ) -> io::Result<End> {
        // Replies of twice as many as can be under way: the next ones are ready when a slot is free.
        let options = LoopOptions {
            calls_in_flight_max: 2 * CALLS_IN_FLIGHT_MAX,
            notes_in_flight_max: NOTES_IN_FLIGHT_MAX,
        };
        let (crash, crashed) = oneshot::channel();
        let server = self.api.server().to_owned();
        let tidings = Tidings {
            ready: Box::new(move || ready(&server)),
            crashed: Box::new(move || {
                let _ = crash.send(());
            }),
        };
        // Outside the runtime: the loop has a thread of its own and may wait.
        let (api, term) = self.api.for_a_term();
        let api = Arc::new(api);
        let shell = Shell::start(api, Arc::new(SystemClock), controllers, options, tidings)?;
        started(shell.window());
        let end = self.wait(async {
            tokio::select! {
                Ok(()) = crashed => End::Crashed,
                () = beside => End::Beside,
            }
        });
        if end == Some(End::Beside) {
            // Another may be in charge: from here on nothing of ours may reach the server, not even a farewell.
            term.end();
        }
        shell.stop();
        Ok(end.unwrap_or(End::Stopped))
    }
}
