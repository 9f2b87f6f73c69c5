//! What only the one in charge does: it has the API server ask its webhooks, and runs the controllers.
//!
//! # Invariants
//!
//! - Webhooks reached by URL are registered by the one in charge alone, and it says so after the server has asked them.
//! - Whoever ends before that leaves no hooks behind that nobody answers.
//! - Behind a Service the one in charge keeps the certificates, and says that it is in charge after the server has asked
//!   any replica; its controllers do not wait for that.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use muster_apiserver::http::stop;
use muster_cluster::Lead;
use muster_install::hooks::Step;
use tokio::task::JoinSet;

use super::OperatorError;
use super::badge;
use super::state::{Role, State};
use super::wanted::{JOBSET, Reached, Wanted};
use crate::away::{Away, End};
use crate::gangs;
use crate::surroundings::Surroundings;
use crate::webhooks::{Behind, LiveCluster, WebhookError, Webhooks, keep_everybody};

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

    /// Runs the controllers, anew whenever device claims are called otherwise or gangs are spelled otherwise.
    fn control(&mut self, mut found: Surroundings, announcement: &Arc<Announcement>) -> io::Result<End> {
        let api = self.away.api().clone();
        let mut tell = Some(announcement.clone());
        loop {
            let (tell, mut newer) = (tell.take(), None);
            let (wanted, lead, needs) = (self.wanted, &mut *self.lead, self.wanted.needs());
            let (state, idle) = (self.state.clone(), self.state.clone());
            let idle = move || idle.places_nothing();
            let beside = async {
                tokio::select! {
                    () = lead.lost() => {}
                    now = found.changed(&api, &wanted.namespace, needs, idle), if needs.any() => newer = Some(now),
                }
            };
            let ready = move |_: &str| {
                if let Some(announcement) = tell {
                    announcement.one_more_is_there();
                }
            };
            let started = |window| state.is(Role::Leads(window));
            let controllers = wanted.controllers(found.claims.clone(), found.gangs, &state.desk);
            let ended = self.away.run(controllers, ready, started, beside)?;
            let Some(now) = newer.filter(|_| ended == End::Beside) else { return Ok(ended) };
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
