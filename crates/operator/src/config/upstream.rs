//! What the configuration files of JobSet, Kueue and Trainer have in common, and what of it means something here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use muster_tree::Tree;

use super::shape::{Field, Shape, bind, needless, used};

/// Why limits of a client are not needed.
pub const BOUNDED: &str = "not needed, calls are bounded in flight instead";
/// Why nothing is read from folders.
const OWN_CERTIFICATES: &str = "not needed, certificates are made and renewed by the operator itself";
/// Why names of what was installed are not taken over.
pub const INSTALLED: &str = "not used, `muster install` names what it makes";
const ALWAYS: &str = "not needed, of several operators one always leads";
const TERMS: &str = "not used, a lead lasts 15 s without a renewal";
const FIXED_PATHS: &str = "not used, the paths are /healthz and /readyz";
/// What stands at a port.
pub const PORT: Shape = Shape::Whole(1, 65535);

/// `apiVersion` and `kind`: what a document is was looked at before its keys.
pub const API_VERSION: Field = used("apiVersion", Shape::Text);
/// The other half.
pub const KIND: Field = used("kind", Shape::Text);

/// Where reviews are asked for.
pub const WEBHOOK: Field = used(
    "webhook",
    Shape::Fields(&[
        used("port", PORT),
        used("host", Shape::Host),
        needless("certDir", Shape::Text, OWN_CERTIFICATES),
    ]),
);

/// The election.
pub const LEADER_ELECTION: Field = used(
    "leaderElection",
    Shape::Fields(&[
        needless("leaderElect", Shape::Bool, ALWAYS),
        needless("leaseDuration", Shape::Span, TERMS),
        needless("renewDeadline", Shape::Span, TERMS),
        needless("retryPeriod", Shape::Span, TERMS),
        needless("resourceLock", Shape::Text, INSTALLED),
        needless("resourceName", Shape::Text, INSTALLED),
        needless("resourceNamespace", Shape::Text, INSTALLED),
    ]),
);

/// Where probes are answered.
pub const HEALTH: Field = used(
    "health",
    Shape::Fields(&[
        used("healthProbeBindAddress", Shape::Bind),
        needless("readinessEndpointName", Shape::Text, FIXED_PATHS),
        needless("livenessEndpointName", Shape::Text, FIXED_PATHS),
    ]),
);

/// Limits of the client.
pub const CLIENT_CONNECTION: Field = needless(
    "clientConnection",
    Shape::Fields(&[used("qps", Shape::Number), used("burst", Shape::Whole(0, i64::MAX))]),
    BOUNDED,
);

/// How many keys of a kind are worked on at once, and how long caches may take.
pub const CONTROLLER: Field = needless(
    "controller",
    Shape::Fields(&[
        used("groupKindConcurrency", Shape::Map(&Shape::Whole(1, i64::MAX))),
        used("cacheSyncTimeout", Shape::Whole(0, i64::MAX)),
    ]),
    BOUNDED,
);

/// Certificates of the webhooks.
pub const CERTIFICATES: Shape = Shape::Fields(&[
    needless("enable", Shape::Bool, OWN_CERTIFICATES),
    needless("webhookServiceName", Shape::Text, INSTALLED),
    needless("webhookSecretName", Shape::Text, INSTALLED),
]);

/// How webhooks are encrypted.
pub const TLS: Field = used(
    "tls",
    Shape::Fields(&[
        used("minVersion", Shape::Text),
        used("cipherSuites", Shape::List(&Shape::Text)),
        needless("nextProtos", Shape::List(&Shape::Text), "not used, HTTP/1.1 and HTTP/2 are spoken"),
    ]),
);

/// What a document of others says that means something here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brought {
    /// Where reviews are asked for.
    pub webhooks: Option<SocketAddr>,
    /// Where probes are answered; `Some(None)` says nowhere.
    pub health: Option<Option<SocketAddr>>,
    /// Where numbers are told.
    pub metrics: Option<Option<SocketAddr>>,
}

impl Brought {
    /// Reads a document that was found to be right.
    pub fn of(document: &Tree) -> Brought {
        let address = |path: &[&str]| document.at(path).and_then(Tree::as_str).and_then(bind);
        Brought {
            webhooks: webhooks(document),
            health: address(&["health", "healthProbeBindAddress"]),
            metrics: address(&["metrics", "bindAddress"]),
        }
    }

    /// This, and what it does not say from `other`.
    #[must_use]
    pub fn or(self, other: Brought) -> Brought {
        Brought {
            webhooks: self.webhooks.or(other.webhooks),
            health: self.health.or(other.health),
            metrics: self.metrics.or(other.metrics),
        }
    }
}

fn webhooks(document: &Tree) -> Option<SocketAddr> {
    let port = document.int_at(&["webhook", "port"]).and_then(|port| u16::try_from(port).ok());
    let host = document.str_at(&["webhook", "host"]).parse::<IpAddr>().ok();
    if port.is_none() && host.is_none() {
        return None;
    }
    Some((host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port.unwrap_or(super::WEBHOOK_PORT)).into())
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_means_something_is_read() {
        let document = tree!({
            "webhook": {"port": 9444},
            "health": {"healthProbeBindAddress": ":8081"},
            "metrics": {"bindAddress": "0"},
        });
        let want = Brought {
            webhooks: Some("0.0.0.0:9444".parse().unwrap()),
            health: Some(Some("0.0.0.0:8081".parse().unwrap())),
            metrics: Some(None),
        };
        assert_eq!(Brought::of(&document), want);
        let host = Brought::of(&tree!({"webhook": {"host": "10.0.0.1"}}));
        assert_eq!(host.webhooks, Some("10.0.0.1:9443".parse().unwrap()));
        assert_eq!(Brought::default().or(want), want);
        assert_eq!(want.or(host).webhooks, want.webhooks, "the first that says something counts");
    }
}
