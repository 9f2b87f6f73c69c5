//! Validation of security contexts.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, go_format};

/// Maximum UID and GID.
const ID_MAX: i64 = i32::MAX as i64;
/// Maximum length of a sysctl name.
const SYSCTL_MAX: usize = 253;
const SYSCTL_WORDS: &str = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// A container's security context in error messages.
const CONTEXT: [go_format::Part; 12] = [
    ("Capabilities", "capabilities", "null"),
    ("Privileged", "privileged", "null"),
    ("SELinuxOptions", "seLinuxOptions", "null"),
    ("WindowsOptions", "windowsOptions", "null"),
    ("RunAsUser", "runAsUser", "null"),
    ("RunAsGroup", "runAsGroup", "null"),
    ("RunAsNonRoot", "runAsNonRoot", "null"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", "null"),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", "null"),
    ("ProcMount", "procMount", "null"),
    ("SeccompProfile", "seccompProfile", "null"),
    ("AppArmorProfile", "appArmorProfile", "null"),
];

/// Validates the context of a container.
pub(super) fn container(context: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    ids(context, at, errors);
    at.field("procMount").one_of(context.str_at(&["procMount"]), &["Default", "Unmasked"], errors);
    seccomp(context, at, errors);
    if context.bool_at(&["allowPrivilegeEscalation"]) != Some(false) {
        return;
    }
    let shown = go_format::typed(context, &CONTEXT);
    if context.bool_at(&["privileged"]) == Some(true) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid_as(at, &shown, why));
    }
    let added = context.items_at(&["capabilities", "add"]);
    if added.iter().any(|name| name.as_str() == Some("CAP_SYS_ADMIN")) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.push(FieldError::invalid_as(at, &shown, why));
    }
}

/// Validates the context of a pod.
pub(super) fn pod(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if spec.bool_at(&["shareProcessNamespace"]) == Some(true) && spec.bool_at(&["hostPID"]) == Some(true) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(at.field("shareProcessNamespace"), true, why));
    }
    let Some(context) = spec.get("securityContext") else {
        return;
    };
    let at = at.field("securityContext");
    ids(context, &at, errors);
    id(context.int_at(&["fsGroup"]), &at.field("fsGroup"), errors);
    let list = at.field("supplementalGroups");
    for (i, group) in context.items_at(&["supplementalGroups"]).iter().enumerate() {
        id(group.as_int(), &list.item(i), errors);
    }
    let policies = ["Always", "OnRootMismatch"];
    at.field("fsGroupChangePolicy").one_of(context.str_at(&["fsGroupChangePolicy"]), &policies, errors);
    let list = at.field("sysctls");
    for (i, sysctl) in context.items_at(&["sysctls"]).iter().enumerate() {
        let at = list.item(i);
        let name = sysctl.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else if !is_sysctl(name) {
            errors.push(FieldError::invalid(at.field("name"), name, SYSCTL_WORDS));
        }
    }
    seccomp(context, &at, errors);
}

fn ids(context: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    for key in ["runAsUser", "runAsGroup"] {
        id(context.int_at(&[key]), &at.field(key), errors);
    }
}

fn id(number: Option<i64>, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if let Some(number) = number.filter(|n| !(0..=ID_MAX).contains(n)) {
        let why = format!("must be between 0 and {ID_MAX}, inclusive");
        errors.push(FieldError::invalid(at, number, why));
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|b| is_inner(*b))
            && bytes.last().is_some_and(|b| is_inner(*b))
            && bytes.iter().all(|b| is_inner(*b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(is_part)
}

fn seccomp(context: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(profile) = context.get("seccompProfile") else {
        return;
    };
    let at = at.field("seccompProfile");
    let kind = profile.str_at(&["type"]);
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    if kind.is_empty() {
        errors.push(FieldError::required(at.field("type"), "type is required when seccompProfile is set"));
    }
    at.field("type").one_of(kind, &kinds, errors);
    let local = profile.get("localhostProfile").is_some();
    if kind == "Localhost" && !local {
        let why = "must be set when seccomp type is Localhost";
        errors.push(FieldError::required(at.field("localhostProfile"), why));
    }
    if kind != "Localhost" && local {
        let why = "can only be set when seccomp type is Localhost";
        let shown = profile.text_at(&["localhostProfile"]);
        errors.push(FieldError::invalid(at.field("localhostProfile"), shown, why));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn contexts_that_break_a_rule() {
        for (context, want) in [
            (tree!({"runAsUser": 0, "procMount": "Default"}), vec![]),
            (tree!({"runAsUser": -1}), vec!["c.runAsUser"]),
            (tree!({"procMount": "X"}), vec!["c.procMount"]),
            (tree!({"seccompProfile": {"type": "Localhost"}}), vec!["c.seccompProfile.localhostProfile"]),
            (tree!({"allowPrivilegeEscalation": false, "privileged": true}), vec!["c"]),
        ] {
            let mut errors = FieldErrors::new();
            container(&context, &FieldPath::Root("c"), &mut errors);
            assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), want, "{context:?}");
        }
        assert!(is_sysctl("net.ipv4/tcp_syncookies") && !is_sysctl("BAD") && !is_sysctl("a..b"));
    }
}
