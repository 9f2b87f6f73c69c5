//! The schema of JobSet's configuration file: gates, addresses, leader election and TLS.

use muster_schema::names;
use muster_tree::Tree;

use super::shape::{ConfigProblem, Field, Shape, ignored, used};
use super::upstream::{
    API_VERSION, CERTIFICATES, CLIENT_CONNECTION, HEALTH, KIND, LEADER_ELECTION, TLS, WEBHOOK,
};

pub const VERSION: &str = muster_api::consts::jobset::CONFIG_VERSION;

pub const FIELDS: [Field; 10] = [
    API_VERSION,
    KIND,
    WEBHOOK,
    LEADER_ELECTION,
    used(
        "metrics",
        Shape::Fields(&[
            used("bindAddress", Shape::Bind),
            ignored("certDir", Shape::Text, "not used, metrics are served over plain HTTP"),
        ]),
    ),
    HEALTH,
    used("internalCertManagement", CERTIFICATES),
    CLIENT_CONNECTION,
    used("featureGates", Shape::Map(&Shape::Bool)),
    TLS,
];

type Rule = fn(&str) -> Vec<String>;

/// Validation beyond the schema: names of its own installation, with JobSet's messages.
pub fn check(document: &Tree, wrong: &mut Vec<ConfigProblem>) {
    let own = "internalCertManagement";
    // JobSet validates these names only if it manages certificates itself.
    if document.bool_at(&[own, "enable"]) == Some(false) {
        return;
    }
    let names: [(&str, Rule); 2] =
        [("webhookServiceName", names::word), ("webhookSecretName", names::subdomain)];
    for (key, rule) in names {
        let Some(value) = document.at(&[own, key]) else { continue };
        let problems = value.as_str().map(rule).unwrap_or_default();
        if !problems.is_empty() {
            wrong.push(ConfigProblem::value(format!("{}.{key}", own), value, &problems.join(",")));
        }
    }
}
