//! What an operator was asked for, after flags and defaults were put together.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use muster_api::port::Kind;
use muster_apiserver::http::serving::Tls;
use muster_cluster::NAMESPACE;
use muster_control::Controller;
use muster_control::jobsets::{Exclusive, JobSets};
use muster_control::schedule::Schedule;
use muster_jobset::admission::Settings;

use super::OperatorError;
use super::rim::Addresses;
use crate::certificates::{Lifetimes, Service};
use crate::cli::OperatorFlags;
use crate::gates;
use crate::names;
use crate::webhooks::Manner;

/// The controllers that a cluster has none of its own for.
const CONTROLLERS: [&str; 2] = ["scheduler", JOBSET];
/// The admission steps that it has none of its own for.
const ADMISSION: [&str; 1] = [JOBSET];
pub const JOBSET: &str = "jobset";
/// Where webhooks listen that are reached through a Service, unless told otherwise.
const SERVED_PORT: u16 = 9443;
/// The variable that tells a pod its namespace.
const NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// At the very address: whoever leads registers itself.
    Url,
    /// Through a Service of this name in the operator's namespace: every replica answers, with the certificate that
    /// the leader keeps in a Secret.
    Service(String),
}

/// What was asked for.
pub struct Wanted {
    /// The namespace of the Lease, the Secret and the Service.
    pub namespace: String,
    /// Controllers to run.
    pub controllers: BTreeSet<String>,
    /// Admission steps to serve.
    pub admission: BTreeSet<String>,
    /// Switches of JobSets.
    pub settings: Settings,
    /// Where webhooks listen.
    pub webhooks: SocketAddr,
    /// How they are reached.
    pub reached: Reached,
    /// Where it shows itself.
    pub shows: Addresses,
    /// How they speak TLS behind a Service.
    pub tls: Tls,
    /// How long their certificates last there.
    pub lives: Lifetimes,
}

impl Wanted {
    /// What these flags ask for; `variable` reads the environment.
    ///
    /// # Errors
    /// Unknown names, and a dump that others would see.
    pub fn of(
        flags: &OperatorFlags,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Wanted, OperatorError> {
        let list = |flag: &Option<String>| flag.clone().unwrap_or_else(|| "*".to_owned());
        let chosen = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
        let gates = gates::jobset(&gates::with(chosen)?);
        let namespace = flags.namespace.clone().or_else(|| variable(NAMESPACE_VARIABLE));
        let (reached, listen) = match flags.webhook_service.clone() {
            Some(name) => (Reached::Service(name), (Ipv4Addr::UNSPECIFIED, SERVED_PORT)),
            None => (Reached::Url, (Ipv4Addr::LOCALHOST, 0)),
        };
        let shows = Addresses {
            health: flags.health_listen,
            metrics: flags.metrics_listen,
            debug: flags.debug_listen,
        };
        Ok(Wanted {
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            controllers: names::choose("controller", &list(&flags.controllers), &CONTROLLERS)?,
            admission: names::choose("admission step", &list(&flags.admission), &ADMISSION)?,
            settings: Settings { gates, ..Settings::default() },
            webhooks: flags.webhook_listen.unwrap_or_else(|| listen.into()),
            reached,
            shows: shows.checked()?,
            tls: Tls::default(),
            lives: lifetimes(flags)?,
        })
    }

    /// How webhooks are served, if that is behind a Service.
    pub fn behind(&self) -> Option<Manner> {
        let Reached::Service(name) = &self.reached else { return None };
        let service = Service { namespace: self.namespace.clone(), name: name.clone() };
        let manner = Manner { address: self.webhooks, service, tls: self.tls.clone(), lives: self.lives };
        self.admission.contains(JOBSET).then_some(manner)
    }

    /// Whether anything is to be done about JobSets.
    pub fn jobsets(&self) -> bool {
        self.controllers.contains(JOBSET) || self.admission.contains(JOBSET)
    }

    /// The controllers, where device claims are called so.
    pub fn controllers(&self, claims: Option<Kind>) -> Vec<Box<dyn Controller>> {
        let all: Vec<Box<dyn Controller>> = vec![
            Box::new(Schedule::beside_another()),
            Box::<Exclusive>::default(),
            Box::new(JobSets::new(self.settings.gates, claims)),
        ];
        all.into_iter().filter(|one| self.controllers.contains(one.name())).collect()
    }
}

fn lifetimes(flags: &OperatorFlags) -> Result<Lifetimes, OperatorError> {
    let default = Lifetimes::default();
    let lives = Lifetimes {
        authority: flags.authority_lifetime.unwrap_or(default.authority),
        serving: flags.certificate_lifetime.unwrap_or(default.serving),
        pause: flags.authority_pause.unwrap_or(default.pause),
    };
    lives.check().map_err(OperatorError::Lifetimes)?;
    Ok(lives)
}
