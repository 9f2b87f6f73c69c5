//! The configuration file of JobSet: gates, addresses, the election and TLS mean here what they mean there.

use muster_schema::names;
use muster_tree::Tree;

use super::shape::{Field, Shape, Wrong, needless, used};
use super::upstream::{
    API_VERSION, CERTIFICATES, CLIENT_CONNECTION, HEALTH, KIND, LEADER_ELECTION, TLS, WEBHOOK,
};

/// Its version.
pub const VERSION: &str = "config.jobset.x-k8s.io/v1alpha1";

/// Its keys.
pub const FIELDS: [Field; 10] = [
    API_VERSION,
    KIND,
    WEBHOOK,
    LEADER_ELECTION,
    used(
        "metrics",
        Shape::Fields(&[
            used("bindAddress", Shape::Bind),
            needless("certDir", Shape::Text, "not used, numbers are told in plain HTTP"),
        ]),
    ),
    HEALTH,
    used("internalCertManagement", CERTIFICATES),
    CLIENT_CONNECTION,
    used("featureGates", Shape::Map(&Shape::Bool)),
    TLS,
];

/// What is wrong with a name.
type Rule = fn(&str) -> Vec<String>;

/// What is wrong beyond its keys: names of what its own installation made, in its own words.
pub fn check(document: &Tree, wrong: &mut Vec<Wrong>) {
    let own = "internalCertManagement";
    if document.bool_at(&[own, "enable"]) == Some(false) {
        return;
    }
    let names: [(&str, Rule); 2] =
        [("webhookServiceName", names::word), ("webhookSecretName", names::subdomain)];
    for (key, rule) in names {
        let Some(value) = document.at(&[own, key]) else { continue };
        let problems = value.as_str().map(rule).unwrap_or_default();
        if !problems.is_empty() {
            wrong.push(Wrong::value(format!("{}.{key}", own), value, &problems.join(",")));
        }
    }
}
