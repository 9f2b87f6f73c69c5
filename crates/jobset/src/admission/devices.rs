//! Validation of the shape of ResourceClaim templates.
//!
//! Only the shape is validated: the API server validates the ResourceClaim when it is created.

use std::collections::BTreeSet;

use muster_api::paths::{device_ask, device_request, jobset_claim as claim};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::Answer;

/// Fields of a request in the flat `v1beta1` form.
const FLAT: [&[&str]; 7] = [
    device_ask::CLASS,
    device_ask::SELECTORS,
    device_ask::MODE,
    device_ask::COUNT,
    device_ask::ADMIN,
    device_ask::TOLERATIONS,
    &["capacity"],
];

const REQUESTS: &[&str] = &["requests"];
const ONE_SHAPE: &str = "exactly one of spec.devices and spec.spec.devices must be set";

pub(super) fn check(template: &Tree, path: &str, answer: &mut Answer) {
    let said = |path: &[&str]| template.at(path).filter(|it| !it.is_null());
    let (devices, path) = match (said(claim::DEVICES), said(claim::LONG_DEVICES)) {
        (Some(devices), None) => (devices, format!("{path}.spec.devices")),
        (None, Some(devices)) => (devices, format!("{path}.spec.spec.devices")),
        (None, None) => {
            answer.problems.push(FieldError::required(format!("{path}.spec.devices"), ONE_SHAPE));
            return;
        }
        (Some(_), Some(_)) => {
            answer.problems.push(FieldError::forbidden(format!("{path}.spec.devices"), ONE_SHAPE));
            return;
        }
    };
    let requests = devices.items_at(REQUESTS);
    if requests.is_empty() {
        let why = "at least one request is needed";
        answer.problems.push(FieldError::required(format!("{path}.requests"), why));
    }
    let mut seen = BTreeSet::new();
    for (at, request) in requests.iter().enumerate() {
        let path = format!("{path}.requests[{at}]");
        name(request, &path, &mut seen, answer);
        form(request, &path, answer);
    }
}

fn name<'a>(request: &'a Tree, path: &str, seen: &mut BTreeSet<&'a str>, answer: &mut Answer) {
    let (path, name) = (format!("{path}.name"), request.str_at(device_request::NAME));
    if name.is_empty() {
        answer.problems.push(FieldError::required(path, ""));
    } else if !seen.insert(name) {
        answer.problems.push(FieldError::duplicate(path, name));
    } else {
        let wrong = names::label(name).into_iter();
        answer.problems.extend(wrong.map(|why| FieldError::invalid(&path, name, why)));
    }
}

/// A request is in the older form or in today's, not in both.
fn form(request: &Tree, path: &str, answer: &mut Answer) {
    let today = [device_request::EXACTLY, device_request::FIRST];
    let Some(today) = today.iter().find(|it| request.at(it).is_some()) else { return };
    for flat in FLAT.iter().filter(|it| request.at(it).is_some()) {
        let why = format!("must not be set beside {}", today.join("."));
        answer.problems.push(FieldError::forbidden(format!("{path}.{}", flat.join(".")), why));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use crate::admission::testing::{expect, set};

    const AT: &str = "spec.replicatedJobs[0].resourceClaimTemplates[0].spec";

    fn with(spec: &muster_tree::Tree) -> muster_tree::Tree {
        set(&tree!({"replicatedJobs": [{"name": "w", "resourceClaimTemplates": [
            {"metadata": {"name": "a"}, "spec": spec}]}]}))
    }

    /// Shows: 762-03.
    #[test]
    fn devices_stand_in_one_place() {
        let devices = || tree!({"requests": [{"name": "r", "deviceClassName": "c"}]});
        expect(&with(&tree!({"devices": devices()})), &[]);
        expect(&with(&tree!({"spec": {"devices": devices()}})), &[]);
        expect(
            &with(&tree!({})),
            &[&format!("{AT}.devices: Required value: exactly one of spec.devices and")],
        );
        expect(
            &with(&tree!({"devices": devices(), "spec": {"devices": devices()}})),
            &[&format!("{AT}.devices: Forbidden: exactly one of spec.devices and spec.spec.devices")],
        );
    }

    /// Shows: 762-04.
    #[test]
    fn requests() {
        let asked = |requests: muster_tree::Tree| with(&tree!({"spec": {"devices": {"requests": requests}}}));
        let at = format!("{AT}.spec.devices.requests");
        let flat = tree!({"name": "a", "deviceClassName": "c", "count": 2});
        let exact = tree!({"name": "b", "exactly": {"deviceClassName": "c"}});
        let first = tree!({"name": "c", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]});
        expect(&asked(tree!([(flat.clone()), (exact.clone()), (first.clone())])), &[]);
        expect(&asked(tree!([])), &[&format!("{at}: Required value: at least one request")]);
        expect(&asked(tree!([{"deviceClassName": "c"}])), &[&format!("{at}[0].name: Required value")]);
        expect(
            &asked(tree!([{"name": "A"}])),
            &[&format!("{at}[0].name: Invalid value: \"A\": a lowercase RFC 1123")],
        );
        expect(&asked(tree!([(flat.clone()), (flat)])), &[&format!("{at}[1].name: Duplicate value: \"a\"")]);
        expect(
            &asked(tree!([(exact.with(&["count"], 1).with(&["capacity"], tree!({})))])),
            &[
                &format!("{at}[0].count: Forbidden: must not be set beside exactly"),
                &format!("{at}[0].capacity: Forbidden: must not be set beside exactly"),
            ],
        );
        expect(
            &asked(tree!([(first.with(&["deviceClassName"], "c"))])),
            &[&format!("{at}[0].deviceClassName: Forbidden: must not be set beside firstAvailable")],
        );
    }
}
