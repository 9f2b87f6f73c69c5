//! What training tells of itself, as it comes in over HTTP.
//!
//! The same wherever it is served: all it needs is the port to an API server, which says whose a token is and keeps what is
//! told. The embedded server has it beside its API ([`Aside`]); an operator listens by itself and hands requests to
//! [`Reports::answer`].
//!
//! # Invariants
//!
//! - Nobody is listened to before the API server knows the token, for exactly this TrainJob.
//! - Every answer is an object: the report as it was read, or a `Status`.
//! - Where there is a pace ([`Reports::paced`]), the server is written to no faster, and nobody waits long for his turn.

pub(crate) mod heard;
pub mod pace;

use std::sync::Arc;

use http::Method;
use muster_api::port::{Act, Api, Call, Guard, Object, Part, Refusal, Target};
use muster_api::token;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::words::STATUS_MANAGER;
use muster_apiserver::http::aside::{Answering, Aside, Asked};
use muster_trainer::life::progress::{self, BYTES_MAX, Refused, Report, Subject};
use muster_tree::Tree;
use tokio::sync::oneshot;

use self::pace::{Pace, Turns};

/// Takes reports.
#[derive(Clone)]
pub struct Reports {
    api: Arc<dyn Api>,
    turns: Option<Arc<Turns>>,
}

impl Reports {
    /// Kept by this server.
    #[must_use]
    pub fn new(api: Arc<dyn Api>) -> Reports {
        Reports { api, turns: None }
    }

    /// The same, which writes at this pace.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Reports {
        Reports { turns: Some(Arc::new(Turns::new(pace))), ..self }
    }

    /// The answer to a POST: its code and its body.
    pub async fn answer(&self, asked: Asked) -> (u16, Tree) {
        match self.take(asked).await {
            Ok(echo) => (200, echo),
            Err(refused) => (refused.code, refused.body()),
        }
    }

    async fn take(&self, asked: Asked) -> Result<Tree, Refused> {
        let subject = Subject::of(&asked.path).ok_or_else(nowhere)?;
        let user = match asked.token {
            Some(token) => self.user(&subject, &token).await?,
            None => None,
        };
        subject.may(user.as_deref())?;
        let body = asked.body.await.map_err(|status| Refused {
            code: status.code,
            reason: if status.code == 413 { progress::TOO_LARGE } else { "BadRequest" },
            message: status.message,
        })?;
        let report = progress::read(&subject.namespace, &subject.name, &body)?;
        let applied = self.apply(&subject, &report).await;
        progress::kept(&report, applied)
    }

    /// Whose a token is, if it is good for reports of this TrainJob.
    async fn user(&self, of: &Subject, token: &str) -> Result<Option<String>, Refused> {
        let audience = of.audience();
        let said = self.ask(token::review(&STATUS_MANAGER, token, &audience)).await;
        let said = said.map_err(|refusal| Refused {
            code: 500,
            reason: "InternalError",
            message: format!("asking whose the token is: {}", refusal.words()),
        })?;
        Ok(token::reviewed(&said.tree, &audience).map(|user| user.to_string()))
    }

    async fn apply(&self, of: &Subject, report: &Report) -> Result<(), Refusal> {
        let Some(body) = report.apply.clone() else { return Ok(()) };
        if let Some(turns) = &self.turns {
            turns.next().await.map_err(|retry_after| Refusal::Busy { retry_after })?;
        }
        let on = Target {
            kind: TRAIN_JOBS.clone(),
            namespace: of.namespace.clone(),
            name: of.name.clone(),
            part: Part::Status,
        };
        let (by, act) = (STATUS_MANAGER.clone(), Act::Apply { body, force: true });
        self.ask(Call { by, on, guard: Guard::default(), act }).await.map(drop)
    }

    async fn ask(&self, call: Call) -> Result<Object, Refusal> {
        let (tell, told) = oneshot::channel();
        let reply = Box::new(move |result| {
            // Whoever has gone meanwhile needs no answer.
            let _ = tell.send(result);
        });
        self.api.call(call, reply);
        told.await.unwrap_or_else(|_| Err(Refusal::Unknown("the server did not answer".to_owned())))
    }
}

fn nowhere() -> Refused {
    Refused { code: 404, reason: "NotFound", message: "Not found".to_owned() }
}

impl Aside for Reports {
    fn takes(&self, method: &Method, path: &str) -> bool {
        method == Method::POST && Subject::of(path).is_some()
    }

    fn bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn answer(&self, asked: Asked) -> Answering {
        let reports = self.clone();
        Box::pin(async move { Reports::answer(&reports, asked).await })
    }
}
