//! Admission of JobSets, queues and TrainJobs on a cluster, and their versions: the same decisions as in the embedded server, asked for over HTTPS.
//!
//! # Invariants
//!
//! - First it serves, then it is registered, then the operator says that it is in charge.
//! - Nothing grows with what clients send: connections, reviews and their size are bounded, and time is.
//! - Reached by URL, the authority is made at every start and kept nowhere; who registers tells the server about it.
//!   Reached through a Service, certificates are kept and renewed ([`crate::certificates`]).
//!
//! # Deliberately absent
//!
//! Who asks for a decision: whoever reaches the port may, as there is nothing to learn beyond it. What an API server hands
//! on about queues is served beside that, and who asks there is looked at ([`crate::aggregated`]).

mod behind;
mod conversion;
mod everybody;
mod hooks;
mod intake;
mod live;
mod register;
mod rehearsal;
mod review;
mod serve;
mod tally;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::Arc;

use http::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use muster_api::words::jobset as words;
use muster_apiserver::http::authority::Authority;
use muster_apiserver::http::identity::IdentityError;
use muster_apiserver::http::listen::{self, Connected, Listener, ServerConfig};
use muster_apiserver::http::stop::{self, Stopper};
use muster_cluster::KubeApi;
use muster_install::hooks::Step;

pub use self::behind::{Behind, Manner};
pub use self::everybody::keep as keep_everybody;
pub use self::hooks::Deciders;
use self::live::Source;
pub use self::live::{LiveCluster, WHO_MAY};
use self::register::Registration;
pub use self::register::{MANAGER, RegisterError, call_on, exactly};
use self::serve::Desk;
pub use self::tally::{Counts, Tally};
use crate::aggregated::Aggregated;
use crate::ports::SystemClock;

/// Connections at once: an API server keeps few and sends many questions over each.
const CONNECTIONS_MAX: usize = 256;
/// The names in the certificates: an authority may not be called as what it certifies.
const CALLED: &str = "muster-webhooks";
const AUTHORITY: &str = "muster-webhooks-ca";

/// Why there are no webhooks.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is everywhere, which is nowhere to call.
    #[error(
        "webhooks cannot be called at {0}\n\nhint: name the one address that the API server reaches with `--webhook-listen ADDRESS:PORT`"
    )]
    Everywhere(SocketAddr),
    /// The address.
    #[error("listening on {address}: {source}\n\nhint: choose another address with `--webhook-listen`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] IdentityError),
    /// The cluster.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// A desk that is served.
struct Served {
    stopper: Stopper,
    serving: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Serves on this socket, and beside it what an API server hands on, if that is wanted. Wants to be called inside a
    /// runtime.
    fn start(
        listener: TcpListener,
        tls: ServerConfig,
        desk: Arc<Desk>,
        handed: Option<Arc<Aggregated>>,
    ) -> io::Result<Served> {
        let (stopper, stop) = stop::pair();
        let listener = Listener::new(listener, tls, CONNECTIONS_MAX, stop)?;
        let serving = tokio::spawn(listener.serve(move |by: &Connected| {
            let (desk, handed, shown) = (desk.clone(), handed.clone(), Arc::new(listen::shown(by)));
            move |request: Request<Incoming>| {
                let (desk, shown) = (desk.clone(), shown.clone());
                let handed = handed.clone().filter(|_| Aggregated::serves(request.uri().path()));
                async move {
                    match handed {
                        Some(handed) => handed.serve(&shown, request).await.map(Either::Right),
                        None => desk.serve(request).await.map(Either::Left),
                    }
                }
            }
        }));
        Ok(Served { stopper, serving })
    }

    /// Answers what was asked and nothing more.
    async fn stop(self) {
        self.stopper.stop();
        let _ = self.serving.await;
    }
}

/// Webhooks that are served, until they are stopped.
pub struct Webhooks {
    desk: Arc<Desk>,
    steps: Vec<Step>,
    base: String,
    authority: Authority,
    served: Served,
}

impl Webhooks {
    /// Serves at this address; port 0 picks a free one. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(
        address: SocketAddr,
        live: Box<dyn Source>,
        deciders: Deciders,
        tally: Arc<Tally>,
    ) -> Result<Webhooks, WebhookError> {
        if address.ip().is_unspecified() {
            return Err(WebhookError::Everywhere(address));
        }
        let wrong = |source| WebhookError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(wrong)?;
        let base = format!("https://{}", listener.local_addr().map_err(wrong)?);
        let authority = Authority::passing(AUTHORITY, &SystemClock)?;
        let tls = authority.serving(CALLED, vec![address.ip().to_string()], None)?;
        let steps = deciders.steps().collect();
        let desk = Arc::new(Desk::new(live, deciders, tally));
        let served = Served::start(listener, tls, desk.clone(), None).map_err(wrong)?;
        Ok(Webhooks { desk, steps, base, authority, served })
    }

    /// Has the server of this connection ask here, and waits until it does, if it has JobSets to ask about: one of this
    /// namespace, which is our own, is rehearsed. Ends early, with all taken back, when `quit` comes.
    ///
    /// # Errors
    /// It refuses, or does not reach us.
    pub async fn register<Q>(
        &self,
        api: &KubeApi,
        namespace: &str,
        jobsets: bool,
        quit: impl Future<Output = Q>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        let (authority, steps) = (self.authority.certificate(), &self.steps);
        let registration = Registration::new(api, namespace, &self.base, authority, steps);
        let heard: &dyn Fn() -> bool = &|| self.desk.heard(words::KIND);
        let done = registration.run(jobsets.then_some(heard), quit).await?;
        if done.is_continue() {
            self.desk.ready(true);
        }
        Ok(done)
    }

    /// Answers what was asked and nothing more.
    pub async fn stop(self) {
        self.served.stop().await;
    }
}
