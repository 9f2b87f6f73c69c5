//! Gangs on the embedded server and on real ones, each in the form that the server has.

use std::sync::Arc;

use super::planes::Shared;
use super::{Case, Stop, Suite, names, real_missing};
use crate::differential::Server;
use crate::gangs::{Form, Playground, Scenario, folder, load, play};
use crate::limits::{EMBEDDED, Limit, REAL};

/// A suite for each form. Each has a plane of its own, which no other dialect shares: scenarios have nodes of their own, on
/// which pods of others must not land, and the form is decided by flags of the API server.
///
/// Shows: 5832-61, 5832-71.
pub fn suites() -> Result<Vec<Suite>, String> {
    let scenarios = Arc::new(load(&folder())?);
    Ok([Form::Embedded, Form::Native, Form::Own].map(|form| suite(form, &scenarios)).into())
}

fn word(form: Form) -> &'static str {
    match form {
        Form::Embedded => "embedded",
        Form::Native => "native",
        Form::Own => "own",
    }
}

fn suite(form: Form, scenarios: &Arc<Vec<Scenario>>) -> Suite {
    let nodes = scenarios.clone();
    let ground = Shared::new("a plane of gangs", move || Playground::start(form, &nodes));
    let (limit, skip): (&'static Limit, _) =
        if form == Form::Embedded { (&EMBEDDED, None) } else { (&REAL, real_missing()) };
    let played = scenarios.iter().enumerate().filter(|(_, it)| it.plays_on(form));
    let mut cases: Vec<Case> = played
        .map(|(n, scenario)| {
            let (ground, scenarios) = (ground.clone(), scenarios.clone());
            let name = names::name(&["gangs", &scenario.file, word(form), &scenario.name]);
            Case::new(name, limit, skip.clone(), move |run| {
                let ground = ground.get(run)?;
                play(ground, n, &scenarios[n]).map_err(|why| fail_with_log(&why, ground))
            })
        })
        .collect();
    if form != Form::Embedded {
        let name = names::name(&[
            "gangs",
            "forms",
            word(form),
            "the operator logs the form and defines none of Kubernetes",
        ]);
        cases.push(Case::new(name, limit, skip, move |run| form_is_logged(ground.get(run)?)));
    }
    Suite { label: format!("gangs on {}", word(form)), cases, finish: Box::new(|_| Ok(Vec::new())) }
}

fn fail_with_log(why: &str, ground: &Playground) -> Stop {
    Stop::Failed(format!("{why}\n{}", super::played::last_lines(&ground.complaints())))
}

/// The operator logs which form it found. It never creates a CRD in the group of Kubernetes: such a CRD would not be served,
/// and would break the discovery of the group.
///
/// Shows: 5832-62, 5832-63.
fn form_is_logged(ground: &Playground) -> Result<(), Stop> {
    let log = ground.complaints();
    let words: &[&str] = match ground.form {
        Form::Native => &["scheduling.k8s.io/v1beta1"],
        _ => &["scheduling.muster.dev/v1alpha1", "annotations"],
    };
    if let Some(word) = words.iter().find(|word| !log.contains(**word)) {
        return Err(Stop::Failed(format!("the log of the operator has no {word:?}: {log}")));
    }
    Ok(no_definition_of_kubernetes(&ground.server)?)
}

fn no_definition_of_kubernetes(server: &Server) -> Result<(), String> {
    let all = server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")?.body;
    let groups: Vec<&str> = all.items_at(&["items"]).iter().map(|it| it.str_at(&["spec", "group"])).collect();
    if !groups.contains(&"scheduling.muster.dev") || groups.contains(&"scheduling.k8s.io") {
        return Err(format!("CRDs are of the groups {groups:?}"));
    }
    let group = server.get("/apis/scheduling.k8s.io")?.body;
    match group.str_at(&["preferredVersion", "version"]) {
        "v1" => Ok(()),
        other => Err(format!("the preferred version of scheduling.k8s.io is {other:?}")),
    }
}
