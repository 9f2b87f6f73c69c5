//! Downward API: `fieldRef` and `resourceFieldRef`.

use std::fmt::Write;

use muster_api::paths::{container as container_path, meta as meta_path, pod as path, resource_ref};
use muster_api::{meta, quantity};
use muster_tree::Tree;

use super::PodContext;

/// A `fieldRef` of an environment variable.
pub(super) fn variable(pod: &Tree, field: &str, context: &PodContext<'_>) -> Result<String, String> {
    match field {
        "spec.nodeName" => Ok(pod.text_at(path::NODE_NAME).to_string()),
        "spec.serviceAccountName" => Ok(pod.text_at(path::ACCOUNT).to_string()),
        "status.hostIP" | "status.hostIPs" => Ok(context.node_address.to_string()),
        "status.podIP" | "status.podIPs" => Ok(context.pod_address.to_string()),
        _ => of_metadata(pod, field),
    }
}

/// A `fieldRef` of a volume, which supports metadata only.
pub(super) fn of_metadata(pod: &Tree, field: &str) -> Result<String, String> {
    if let Some((list, key)) = field.strip_suffix("']").and_then(|field| field.split_once("['")) {
        let value = match list {
            "metadata.annotations" => meta::annotation(pod, key),
            "metadata.labels" => meta::label(pod, key),
            _ => return Err(format!("fieldPath {field:?} does not support subscript")),
        };
        return Ok(value.unwrap_or_default().to_owned());
    }
    match field {
        "metadata.annotations" => Ok(lines(pod, meta_path::ANNOTATIONS)),
        "metadata.labels" => Ok(lines(pod, meta_path::LABELS)),
        "metadata.name" => Ok(meta::name(pod).to_string()),
        "metadata.namespace" => Ok(meta::namespace(pod).to_string()),
        "metadata.uid" => Ok(meta::uid(pod).to_string()),
        _ => Err(format!("unsupported fieldPath: {field}")),
    }
}

/// One line `key="value"` per entry.
fn lines(pod: &Tree, list: &[&str]) -> String {
    let entries = pod.entries_at(list).iter();
    let line = |(key, value): &(_, Tree)| format!("{key}={}", quoted(value.as_str().unwrap_or_default()));
    entries.map(line).collect::<Vec<_>>().join("\n")
}

/// A quoted string, as Go's `%q` formats it.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            _ => push_escaped(&mut out, letter),
        }
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, letter: char) {
    let code = u32::from(letter);
    // `escape_debug` escapes a combining character only at the start, so the letter is tested in second place.
    let shown = format!("a{letter}").escape_debug().skip(1).eq([letter]);
    let written = match code {
        _ if shown => write!(out, "{letter}"),
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing to a String cannot fail");
}

/// Resources with the node's allocatable as the default limit.
const BOUNDED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Allocatable of the node, bounded by pod-level limits.
pub(super) fn bounded_by_pod(allocatable: &Tree, pod: &Tree) -> Tree {
    let limits =
        ["cpu", "memory"].into_iter().filter_map(|name| Some((name, pod.at(path::LIMITS)?.get(name)?)));
    limits.fold(allocatable.clone(), |all, (name, limit)| all.with_key(name, limit.clone()))
}

/// A `resourceFieldRef` with `containerName`.
pub(super) fn named_resource(reference: &Tree, pod: &Tree, allocatable: &Tree) -> Result<String, String> {
    let name = reference.str_at(resource_ref::CONTAINER);
    let mut all = pod.items_at(path::CONTAINERS).iter().chain(pod.items_at(path::INIT_CONTAINERS));
    match all.find(|it| it.str_at(container_path::NAME) == name) {
        Some(container) => resource(reference, container, allocatable),
        None => Err(format!("container {name} not found")),
    }
}

/// A `resourceFieldRef` divided by `divisor`, rounded up.
pub(super) fn resource(reference: &Tree, container: &Tree, allocatable: &Tree) -> Result<String, String> {
    let wanted = reference.str_at(resource_ref::RESOURCE);
    let unknown = || format!("unsupported container resource : {wanted}");
    let (list, name) = wanted.split_once('.').ok_or_else(unknown)?;
    if !BOUNDED.contains(&name) && !name.starts_with("hugepages-") {
        return Err(unknown());
    }
    let scale = if name == "cpu" { quantity::milli } else { quantity::whole };
    let read =
        |field: Option<&Tree>| field.and_then(amount).and_then(|text| scale(&text)).filter(|it| *it > 0);
    let of = |path| read(container.at(path).and_then(|it| it.get(name)));
    let value = match list {
        "requests" => of(container_path::REQUESTS),
        "limits" if BOUNDED.contains(&name) => {
            of(container_path::LIMITS).or_else(|| read(allocatable.get(name)))
        }
        "limits" => of(container_path::LIMITS),
        _ => return Err(unknown()),
    };
    // The default divisor is 1: whole cores or bytes.
    let unit = read(reference.at(resource_ref::DIVISOR)).or(scale("1")).unwrap_or(1);
    let value = value.unwrap_or(0);
    Ok((value / unit + i64::from(value % unit > 0)).to_string())
}

/// A quantity as text, from a string or a number.
pub(super) fn amount(field: &Tree) -> Option<String> {
    match field.as_str() {
        Some(text) => Some(text.to_owned()),
        None => field.as_int().map(|number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn metadata_in_files() {
        let pod = tree!({"metadata": {"name": "p", "namespace": "n", "uid": "u",
            "labels": {"b": "2", "a": "1"},
            "annotations": {"k": "say \"hi\"\n\tü\u{200b}\u{7}\u{1}\\", "x[y]": "z"}}});
        for (field, want) in [
            ("metadata.name", Ok("p")),
            ("metadata.namespace", Ok("n")),
            ("metadata.uid", Ok("u")),
            ("metadata.labels", Ok("a=\"1\"\nb=\"2\"")),
            ("metadata.annotations", Ok("k=\"say \\\"hi\\\"\\n\\tü\\u200b\\a\\x01\\\\\"\nx[y]=\"z\"")),
            ("metadata.labels['a']", Ok("1")),
            ("metadata.labels['none']", Ok("")),
            ("metadata.annotations['x[y]']", Ok("z")),
            ("metadata.name['a']", Err("fieldPath \"metadata.name['a']\" does not support subscript")),
            ("spec.nodeName", Err("unsupported fieldPath: spec.nodeName")),
        ] {
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(of_metadata(&pod, field), want, "{field}");
        }
    }

    #[test]
    fn resources_in_units() {
        let pod = tree!({"spec": {"resources": {"limits": {"memory": "4Gi"}},
            "containers": [{"name": "c", "resources": {
                "limits": {"cpu": "1500m", "hugepages-2Mi": "4Mi"}, "requests": {"memory": "100Mi", "cpu": 1}}}],
            "initContainers": [{"name": "i"}]}});
        let node = tree!({"cpu": "8", "memory": "32Gi", "ephemeral-storage": "10Gi"});
        let both = bounded_by_pod(&node, &pod);
        for (says, container, resource, divisor, want) in [
            ("cores are rounded up", "c", "limits.cpu", "", Ok("2")),
            ("thousandths", "c", "limits.cpu", "1m", Ok("1500")),
            ("a divisor of nothing is one", "c", "limits.cpu", "0", Ok("2")),
            ("bytes", "c", "requests.memory", "", Ok("104857600")),
            ("mebibytes", "c", "requests.memory", "1Mi", Ok("100")),
            ("rounded up", "c", "requests.memory", "1Gi", Ok("1")),
            ("a number", "c", "requests.cpu", "1m", Ok("1000")),
            ("no limit: that of the pod", "c", "limits.memory", "1Gi", Ok("4")),
            ("nor there: what the node has", "c", "limits.ephemeral-storage", "1Gi", Ok("10")),
            ("nor there: what the node has", "i", "limits.cpu", "1", Ok("8")),
            ("no request is none", "i", "requests.cpu", "1", Ok("0")),
            ("huge pages", "c", "limits.hugepages-2Mi", "1Mi", Ok("4")),
            ("huge pages are never the node's", "i", "limits.hugepages-2Mi", "1", Ok("0")),
            (
                "another resource",
                "c",
                "limits.nvidia.com/gpu",
                "1",
                Err("unsupported container resource : limits.nvidia.com/gpu"),
            ),
            ("another container", "x", "limits.cpu", "1", Err("container x not found")),
        ] {
            let reference = tree!({"containerName": container, "resource": resource, "divisor": divisor});
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(named_resource(&reference, &pod, &both), want, "{says}");
        }
    }
}
