//! The keys that the configuration files of JobSet, Kueue and Trainer share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use muster_tree::Tree;

use super::shape::{Field, Shape, bind, ignored, used};

/// Reason for ignoring client rate limits.
pub const BOUNDED: &str = "not needed, requests in flight are limited instead";
/// Reason for ignoring certificate directories.
const OWN_CERTIFICATES: &str = "not needed, the operator generates and rotates its certificates";
/// Reason for ignoring names of installed objects.
pub const INSTALLED: &str = "not used, `muster install` names the objects";
const ALWAYS: &str = "not needed, leader election is always on";
const TERMS: &str = "not used, the lease duration is 15 s";
const FIXED_PATHS: &str = "not used, the paths are /healthz and /readyz";
pub const PORT: Shape = Shape::Whole(1, 65535);

/// `apiVersion` and `kind` are checked before the other keys.
pub const API_VERSION: Field = used("apiVersion", Shape::Text);
pub const KIND: Field = used("kind", Shape::Text);

pub const WEBHOOK: Field = used(
    "webhook",
    Shape::Fields(&[
        used("port", PORT),
        used("host", Shape::Host),
        ignored("certDir", Shape::Text, OWN_CERTIFICATES),
    ]),
);

pub const LEADER_ELECTION: Field = used(
    "leaderElection",
    Shape::Fields(&[
        ignored("leaderElect", Shape::Bool, ALWAYS),
        ignored("leaseDuration", Shape::Span, TERMS),
        ignored("renewDeadline", Shape::Span, TERMS),
        ignored("retryPeriod", Shape::Span, TERMS),
        ignored("resourceLock", Shape::Text, INSTALLED),
        ignored("resourceName", Shape::Text, INSTALLED),
        ignored("resourceNamespace", Shape::Text, INSTALLED),
    ]),
);

pub const HEALTH: Field = used(
    "health",
    Shape::Fields(&[
        used("healthProbeBindAddress", Shape::Bind),
        ignored("readinessEndpointName", Shape::Text, FIXED_PATHS),
        ignored("livenessEndpointName", Shape::Text, FIXED_PATHS),
    ]),
);

pub const CLIENT_CONNECTION: Field = ignored(
    "clientConnection",
    Shape::Fields(&[used("qps", Shape::Number), used("burst", Shape::Whole(0, i64::MAX))]),
    BOUNDED,
);

/// Reconcile concurrency and cache sync timeout.
pub const CONTROLLER: Field = ignored(
    "controller",
    Shape::Fields(&[
        used("groupKindConcurrency", Shape::Map(&Shape::Whole(1, i64::MAX))),
        used("cacheSyncTimeout", Shape::Whole(0, i64::MAX)),
    ]),
    BOUNDED,
);

pub const CERTIFICATES: Shape = Shape::Fields(&[
    ignored("enable", Shape::Bool, OWN_CERTIFICATES),
    ignored("webhookServiceName", Shape::Text, INSTALLED),
    ignored("webhookSecretName", Shape::Text, INSTALLED),
]);

pub const TLS: Field = used(
    "tls",
    Shape::Fields(&[
        used("minVersion", Shape::Text),
        used("cipherSuites", Shape::List(&Shape::Text)),
        ignored("nextProtos", Shape::List(&Shape::Text), "not used, HTTP/1.1 and HTTP/2 are supported"),
    ]),
);

/// The addresses in an upstream document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpstreamAddresses {
    pub webhooks: Option<SocketAddr>,
    /// Health probes; `Some(None)` disables them.
    pub health: Option<Option<SocketAddr>>,
    /// Metrics; `Some(None)` disables them.
    pub metrics: Option<Option<SocketAddr>>,
}

impl UpstreamAddresses {
    /// Reads a validated document.
    pub fn of(document: &Tree) -> UpstreamAddresses {
        let address = |path: &[&str]| document.at(path).and_then(Tree::as_str).and_then(bind);
        UpstreamAddresses {
            webhooks: webhooks(document),
            health: address(&["health", "healthProbeBindAddress"]),
            metrics: address(&["metrics", "bindAddress"]),
        }
    }

    /// Fills what is unset from `other`.
    #[must_use]
    pub fn or(self, other: UpstreamAddresses) -> UpstreamAddresses {
        UpstreamAddresses {
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
    fn addresses_of_upstream_documents_are_read() {
        let document = tree!({
            "webhook": {"port": 9444},
            "health": {"healthProbeBindAddress": ":8081"},
            "metrics": {"bindAddress": "0"},
        });
        let want = UpstreamAddresses {
            webhooks: Some("0.0.0.0:9444".parse().unwrap()),
            health: Some(Some("0.0.0.0:8081".parse().unwrap())),
            metrics: Some(None),
        };
        assert_eq!(UpstreamAddresses::of(&document), want);
        let host = UpstreamAddresses::of(&tree!({"webhook": {"host": "10.0.0.1"}}));
        assert_eq!(host.webhooks, Some("10.0.0.1:9443".parse().unwrap()));
        assert_eq!(UpstreamAddresses::default().or(want), want);
        assert_eq!(want.or(host).webhooks, want.webhooks, "the first that says something counts");
    }
}
