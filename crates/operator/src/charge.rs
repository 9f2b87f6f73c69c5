//! What only the one in charge does: it has the API server ask its webhooks, and runs the controllers.
//!
//! # Invariants
//!
//! - Webhooks reached by URL are registered by the one in charge alone, and it says so after the server has asked them.
//! - Whoever ends before that leaves no hooks behind that nobody answers.
//! - Behind a Service the one in charge keeps the certificates, and says that it is in charge after the server has asked
//!   any replica; its controllers do not wait for that.
//! - Pods that tell how far training is trust the authorities of the moment: when those change, controllers are made anew
//!   and write them where pods read them. A next authority is among them a pause before it certifies.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use muster_apiserver::http::stop;
use muster_cluster::Lead;
use muster_control::training::Reporting;
use muster_install::hooks::Step;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::OperatorError;
use super::badge;
use super::state::{Role, State};
use super::wanted::{JOBSET, Reached, Wanted};
use crate::away::{Away, End};
use crate::gangs;
use crate::surroundings::Surroundings;
use crate::webhooks::{Behind, LiveCluster, WebhookError, Webhooks, keep_everybody};

/// How long controllers wait for the first certificate where pods are to be told whom to trust: it is made at once, unless
/// something is wrong, and then nothing else should wait for it.
const CERTIFICATE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Somebody in charge.
pub struct Charge<'a> {
    pub wanted: &'a Wanted,
    pub state: &'a Arc<State>,
    pub away: &'a mut Away,
    pub lead: &'a mut Lead,
    /// Who it is, unlike any other.
    pub name: &'a str,
    /// Its webhooks, where they are behind a Service.
    pub behind: Option<&'a Behind>,
}

/// The line that tells who is in charge, said when all is there that it promises.
struct Announcement {
    server: String,
    awaited: AtomicU8,
}

impl Announcement {
    fn one_more_is_there(&self) {
        if self.awaited.fetch_sub(1, Ordering::AcqRel) == 1 {
            super::announce(&self.server);
        }
    }
}

/// Where pods tell how far training is, and whom they trust there.
struct Told {
    server: String,
    trusted: watch::Receiver<String>,
}

impl Told {
    /// Waits until there is anybody to trust.
    async fn known(&mut self) {
        // It ends early only with the operator.
        let _ = self.trusted.wait_for(|it| !it.is_empty()).await;
    }

    /// Whom they trust now, if anybody.
    fn now(&mut self) -> Option<Reporting> {
        let ca = self.trusted.borrow_and_update();
        (!ca.is_empty()).then(|| Reporting { server: self.server.as_str().into(), ca: ca.as_str().into() })
    }

    /// Waits until they are to trust others.
    async fn changed(told: Option<&mut Told>) {
        let heard = match told {
            Some(told) => told.trusted.changed().await.is_ok(),
            None => false,
        };
        if !heard {
            std::future::pending::<()>().await;
        }
    }
}

/// Why controllers ended.
enum Came {
    /// A signal, an error, or another leads.
    End,
    /// The cluster has changed.
    Newer(Surroundings),
    /// Pods are to trust others.
    Authority,
}

impl Charge<'_> {
    /// Works until a signal comes or another leads.
    pub fn run(mut self) -> Result<End, OperatorError> {
        let api = self.away.api().clone();
        let (lead, wanted) = (&mut *self.lead, self.wanted);
        let look = async {
            tokio::select! {
                found = Surroundings::look(&api, &wanted.namespace, wanted.needs()) => Some(found),
                () = lead.lost() => None,
            }
        };
        let Some(found) = self.away.wait(look) else { return Ok(End::Stopped) };
        let Some(found) = found else { return Ok(End::Beside) };
        let found = found.map_err(|refusal| OperatorError::Kinds(refusal.words()))?;
        found.tell(&[]);
        if wanted.needs().gangs {
            tracing::info!("{}", gangs::words(found.gangs));
        }
        let mut webhooks = None;
        if !self.wanted.deciders().is_empty() && self.wanted.reached == Reached::Url {
            self.state.hooks_answer(false);
            let served = self.serve().and_then(|hooks| {
                let hooks = webhooks.insert(hooks);
                // One of them shows whether the server asks.
                self.register(hooks, found.jobsets && self.wanted.admission.contains(JOBSET))
            });
            // Whoever stands by again has no hooks to answer.
            if !matches!(served, Ok(ControlFlow::Continue(()))) {
                self.state.hooks_rest();
            }
            if let ControlFlow::Break(end) = served? {
                return Ok(end);
            }
            self.state.hooks_answer(true);
        }
        // What another admits is no sign of us.
        let rehearses = self.wanted.deciders().has(Step::JobSets);
        let behind = self.behind.is_some() && found.jobsets && rehearses;
        let server = self.away.api().server().to_owned();
        let awaited = AtomicU8::new(if behind { 2 } else { 1 });
        let announcement = Arc::new(Announcement { server, awaited });
        let keeping = self.keep(behind.then(|| announcement.clone()));
        let ended = self.control(found, &announcement);
        drop(keeping);
        self.state.is(Role::StandsBy);
        if let Some(webhooks) = webhooks {
            self.state.hooks_rest();
            self.away.wait(webhooks.stop());
        }
        Ok(ended?)
    }

    /// Keeps the list of those whom everybody is asked about, and the certificates of webhooks behind a Service, and waits
    /// for the server to ask them, until what is returned is dropped.
    fn keep(&self, awaits: Option<Arc<Announcement>>) -> JoinSet<()> {
        let mut keeping = JoinSet::new();
        let (api, _inside) = (self.away.api().beside(), self.away.enter());
        if self.wanted.deciders().has(Step::Queues) {
            let (everybody, end) =
                (keep_everybody(api.clone(), self.wanted.queues.without_queue_name), self.lead.end());
            keeping.spawn(async move {
                tokio::select! {
                    () = end => {}
                    () = everybody => {}
                }
            });
        }
        let Some(behind) = self.behind else { return keeping };
        if let Some(pod) = self.wanted.pod.clone().filter(|_| self.wanted.deciders().has(Step::Queues)) {
            let (badge, end) =
                (badge::keep(api.clone(), self.wanted.namespace.clone(), pod), self.lead.end());
            keeping.spawn(async move {
                tokio::select! {
                    () = end => {}
                    () = badge => {}
                }
            });
        }
        let (keeper, end) = (behind.keeper(&api), self.lead.end());
        keeping.spawn(async move {
            tokio::select! {
                () = end => {}
                () = keeper.keep() => {}
            }
        });
        if !self.wanted.deciders().has(Step::JobSets) {
            return keeping;
        }
        let asked = behind.asked(&api, self.name);
        keeping.spawn(async move {
            asked.await;
            tracing::info!("the API server asks the webhooks");
            if let Some(announcement) = awaits {
                announcement.one_more_is_there();
            }
        });
        keeping
    }

    fn serve(&self) -> Result<Webhooks, WebhookError> {
        let _inside = self.away.enter();
        let live = Box::new(LiveCluster::new(self.away.api(), &self.wanted.namespace));
        Webhooks::start(self.wanted.webhooks, live, self.wanted.deciders(), self.state.tally.clone())
    }

    /// Registers the webhooks, unless a signal comes or another leads before the server has asked them.
    fn register(&mut self, hooks: &Webhooks, rehearses: bool) -> Result<ControlFlow<End>, WebhookError> {
        let api = self.away.api().clone();
        let (stopper, mut stop) = stop::pair();
        let lead = &mut *self.lead;
        let quit = async {
            tokio::select! {
                () = stop.stopped() => End::Stopped,
                () = lead.lost() => End::Beside,
            }
        };
        let work = hooks.register(&api, &self.wanted.namespace, rehearses, quit);
        Ok(self.away.wait_out(|| stopper.stop(), work)?)
    }

    /// Where pods tell how far training is, if they do: after a certificate is there, or is waited for in vain.
    fn told(&mut self) -> Option<Told> {
        let (hears, behind) = (self.wanted.hears()?, self.behind?);
        let mut told = Told { server: hears.server, trusted: behind.trusted() };
        let lead = &mut *self.lead;
        self.away.wait(async {
            tokio::select! {
                () = lead.lost() => {}
                waited = timeout(CERTIFICATE_WAIT_MAX, told.known()) => if waited.is_err() {
                    tracing::warn!("there is no certificate yet: training that starts now cannot tell how far it is");
                }
            }
        });
        Some(told)
    }

    /// Runs the controllers, anew whenever device claims are called otherwise, gangs are spelled otherwise, or pods are to
    /// trust others.
    fn control(&mut self, mut found: Surroundings, announcement: &Arc<Announcement>) -> io::Result<End> {
        let api = self.away.api().clone();
        let mut tell = Some(announcement.clone());
        let mut told = self.told();
        loop {
            let (tell, mut came) = (tell.take(), Came::End);
            let reporting = told.as_mut().and_then(Told::now);
            let (wanted, lead, needs) = (self.wanted, &mut *self.lead, self.wanted.needs());
            let (state, idle) = (self.state.clone(), self.state.clone());
            let idle = move || idle.places_nothing();
            let beside = async {
                tokio::select! {
                    () = lead.lost() => {}
                    now = found.changed(&api, &wanted.namespace, needs, idle), if needs.any() => {
                        came = Came::Newer(now);
                    }
                    () = Told::changed(told.as_mut()) => came = Came::Authority,
                }
            };
            let ready = move |_: &str| {
                if let Some(announcement) = tell {
                    announcement.one_more_is_there();
                }
            };
            let started = |window| state.is(Role::Leads(window));
            let controllers = wanted.controllers(found.claims.clone(), found.gangs, reporting, &state.desk);
            let ended = self.away.run(controllers, ready, started, beside)?;
            let now = match came {
                Came::Newer(now) if ended == End::Beside => now,
                Came::Authority if ended == End::Beside => {
                    tracing::info!("pods are told whom to trust when they tell how far training is");
                    continue;
                }
                _ => return Ok(ended),
            };
            if now.claims != found.claims {
                tracing::info!(
                    version = now.claims.as_ref().map(|it| it.version.as_str()),
                    "device claims are served"
                );
            }
            if now.gangs != found.gangs {
                tracing::info!("{}", gangs::words(now.gangs));
            }
            now.tell(&found.complaints);
            found = now;
        }
    }
}
