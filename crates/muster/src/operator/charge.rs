//! What only the one in charge does: it has the API server ask its webhooks, and runs the controllers.
//!
//! # Invariants
//!
//! - Webhooks reached by URL are registered by the one in charge alone, and it says so after the server has asked them.
//! - Whoever ends before that leaves no hooks behind that nobody answers.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use muster_apiserver::http::stop;
use muster_cluster::Lead;

use super::OperatorError;
use super::state::{Role, State};
use super::wanted::{JOBSET, Reached, Wanted};
use crate::away::{Away, End};
use crate::surroundings::Surroundings;
use crate::webhooks::{LiveCluster, WebhookError, Webhooks};

/// Somebody in charge.
pub struct Charge<'a> {
    pub wanted: &'a Wanted,
    pub state: &'a Arc<State>,
    pub away: &'a mut Away,
    pub lead: &'a mut Lead,
}

impl Charge<'_> {
    /// Works until a signal comes or another leads.
    pub fn run(mut self) -> Result<End, OperatorError> {
        let api = self.away.api().clone();
        let Some(found) = self.away.wait(Surroundings::look(&api)) else { return Ok(End::Stopped) };
        let found = found.map_err(|refusal| OperatorError::Kinds(refusal.words()))?;
        if self.wanted.jobsets() {
            found.tell(None);
        }
        let mut webhooks = None;
        if self.wanted.admission.contains(JOBSET) && self.wanted.reached == Reached::Url {
            self.state.hooks_answer(false);
            let hooks = webhooks.insert(self.serve()?);
            if let ControlFlow::Break(end) = self.register(hooks, found.jobsets)? {
                self.state.hooks_rest();
                return Ok(end);
            }
            self.state.hooks_answer(true);
        }
        let ended = self.control(found);
        self.state.is(Role::StandsBy);
        if let Some(webhooks) = webhooks {
            self.state.hooks_rest();
            self.away.wait(webhooks.stop());
        }
        Ok(ended?)
    }

    fn serve(&self) -> Result<Webhooks, WebhookError> {
        let _inside = self.away.enter();
        let live = Box::new(LiveCluster::new(self.away.api()));
        Webhooks::start(self.wanted.webhooks, live, self.wanted.settings, self.state.tally.clone())
    }

    /// Registers the webhooks, unless a signal comes or another leads before the server has asked them.
    fn register(&mut self, hooks: &Webhooks, jobsets: bool) -> Result<ControlFlow<End>, WebhookError> {
        let api = self.away.api().clone();
        let (stopper, mut stop) = stop::pair();
        let lead = &mut *self.lead;
        let quit = async {
            tokio::select! {
                () = stop.stopped() => End::Stopped,
                () = lead.lost() => End::Beside,
            }
        };
        let work = hooks.register(&api, &self.wanted.namespace, jobsets, quit);
        Ok(self.away.wait_out(|| stopper.stop(), work)?)
    }

    /// Runs the controllers, anew whenever device claims are called otherwise.
    fn control(&mut self, mut found: Surroundings) -> io::Result<End> {
        let api = self.away.api().clone();
        let mut tell: Option<fn(&str)> = Some(super::announce);
        loop {
            let (tell, mut newer) = (tell.take(), None);
            let (wanted, lead) = (self.wanted, &mut *self.lead);
            let beside = async {
                tokio::select! {
                    () = lead.lost() => {}
                    now = found.changed(&api), if wanted.jobsets() => newer = Some(now),
                }
            };
            let ready = move |server: &str| {
                if let Some(tell) = tell {
                    tell(server);
                }
            };
            let state = self.state.clone();
            let started = |window| state.is(Role::Leads(window));
            let ended = self.away.run(wanted.controllers(found.claims.clone()), ready, started, beside)?;
            let Some(now) = newer.filter(|_| ended == End::Beside) else { return Ok(ended) };
            tracing::info!(
                version = now.claims.as_ref().map(|it| it.version.as_str()),
                "device claims are served"
            );
            now.tell(found.complaint.as_ref());
            found = now;
        }
    }
}
