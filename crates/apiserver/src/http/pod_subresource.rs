//! Options of the pod subresources `log`, `exec`, `attach` and `portforward`, translated to the kubelet's paths and
//! queries. Pure.

use muster_api::time::Time;
use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::query::QueryParams;
use crate::request::ResourcePath;
use crate::status::{Status, StatusObject};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodSubresource {
    Log,
    Exec,
    Attach,
    PortForward,
}

impl PodSubresource {
    /// The subresource of a request; `None` when it is another resource or subresource.
    pub fn of(target: &ResourcePath) -> Option<PodSubresource> {
        if !target.group.is_empty() || target.resource != "pods" {
            return None;
        }
        Some(match target.subresource.as_str() {
            "log" => PodSubresource::Log,
            "exec" => PodSubresource::Exec,
            "attach" => PodSubresource::Attach,
            "portforward" => PodSubresource::PortForward,
            _ => return None,
        })
    }

    /// The first segment of the kubelet's path.
    fn word(self) -> &'static str {
        match self {
            PodSubresource::Log => "containerLogs",
            PodSubresource::Exec => "exec",
            PodSubresource::Attach => "attach",
            PodSubresource::PortForward => "portForward",
        }
    }
}

/// Parsed options of one request.
#[derive(Debug)]
pub(super) struct PodStreamOptions {
    part: PodSubresource,
    container: String,
    /// The query parameters that the kubelet gets.
    query: Vec<(&'static str, String)>,
}

impl PodStreamOptions {
    /// Parses the query parameters of the API request.
    ///
    /// # Errors
    /// 400 for malformed values, 422 for log options that contradict each other.
    pub fn of(part: PodSubresource, pod: &str, query: &QueryParams) -> Result<PodStreamOptions, Status> {
        let asked = match part {
            PodSubresource::Log => log(pod, query)?,
            PodSubresource::Exec => {
                let command = query.all("command").into_iter().map(|word| ("command", word.to_owned()));
                streams(query).into_iter().chain(command).collect()
            }
            PodSubresource::Attach => streams(query),
            PodSubresource::PortForward => ports(query)?,
        };
        let container = query.get("container").unwrap_or_default().to_owned();
        Ok(PodStreamOptions { part, container, query: asked })
    }

    /// The path and query of the kubelet request for this pod.
    ///
    /// # Errors
    /// 400 when the container name is missing or unknown.
    pub fn location(&self, pod: &Tree) -> Result<String, Status> {
        let (namespace, name) = (pod.str_at(&["metadata", "namespace"]), pod.str_at(&["metadata", "name"]));
        let mut location = format!("/{}/{namespace}/{name}", self.part.word());
        if self.part != PodSubresource::PortForward {
            location.push('/');
            location.push_str(&container(pod, &self.container)?);
        }
        if !self.query.is_empty() {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(&self.query);
            location.push('?');
            location.push_str(&query.finish());
        }
        Ok(location)
    }
}

fn container(pod: &Tree, wanted: &str) -> Result<String, Status> {
    let name = pod.str_at(&["metadata", "name"]);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| pod.items_at(&["spec", list]));
    let names: Vec<&str> = all.map(|container| container.str_at(&["name"])).collect();
    if !wanted.is_empty() {
        let wrong = || Status::bad_request(format!("container {wanted} is not valid for pod {name}"));
        return if names.contains(&wanted) { Ok(wanted.to_owned()) } else { Err(wrong()) };
    }
    match pod.items_at(&["spec", "containers"]) {
        [only] => Ok(only.str_at(&["name"]).to_owned()),
        _ => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        ))),
    }
}

fn streams(query: &QueryParams) -> Vec<(&'static str, String)> {
    let words = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
    let wanted = words.into_iter().filter(|(ours, _)| query.flag(ours).unwrap_or(false));
    wanted.map(|(_, kubelets)| (kubelets, "1".to_owned())).collect()
}

fn ports(query: &QueryParams) -> Result<Vec<(&'static str, String)>, Status> {
    let mut ports = Vec::new();
    for text in query.all("ports").into_iter().flat_map(|list| list.split(',')) {
        let wrong = |_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        ports.push(text.parse::<i32>().map_err(wrong)?.to_string());
    }
    Ok(if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] })
}

fn log(pod: &str, query: &QueryParams) -> Result<Vec<(&'static str, String)>, Status> {
    let numbers = ["tailLines", "limitBytes", "sinceSeconds"];
    let mut asked: Vec<(&'static str, String)> = ["follow", "previous", "timestamps"]
        .into_iter()
        .filter(|key| query.flag(key).unwrap_or(false))
        .map(|key| (key, "true".to_owned()))
        .collect();
    let mut errors = Vec::new();
    for key in numbers {
        let Some(number) = query.number(key)? else {
            continue;
        };
        match key {
            "tailLines" if number < 0 => {
                errors.push(FieldError::invalid(key, number, "must be greater than or equal to 0"));
            }
            "limitBytes" | "sinceSeconds" if number < 1 => {
                errors.push(FieldError::invalid(key, number, "must be greater than 0"));
            }
            _ => {}
        }
        asked.push((key, number.to_string()));
    }
    if let Some(text) = query.get("sinceTime").filter(|text| !text.is_empty()) {
        let time = Time::parse(text).ok_or_else(|| no_time(text))?;
        if asked.iter().any(|(key, _)| *key == "sinceSeconds") {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", why));
        }
        asked.push(("sinceTime", time.to_seconds_text()));
    }
    if query.get("stream").is_some() {
        errors.push(FieldError::forbidden("stream", "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(asked);
    }
    Err(Status::invalid(StatusObject { group: "", resource: "PodLogOptions", name: pod }, &errors))
}

fn no_time(text: &str) -> Status {
    let form = "2006-01-02T15:04:05Z07:00";
    Status::bad_request(format!("parsing time {text:?} as {form:?}: cannot parse {text:?} as {form:?}"))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn pod(containers: &[&str]) -> Tree {
        let named = |names: &[&str]| Tree::list(names.iter().map(|name| tree!({"name": *name})));
        tree!({
            "metadata": {"namespace": "n", "name": "p"},
            "spec": {"containers": named(containers), "initContainers": named(&["i"])},
        })
    }

    fn location(part: PodSubresource, query: &str, containers: &[&str]) -> Result<String, String> {
        let asked = PodStreamOptions::of(part, "p", &QueryParams::parse(query))
            .and_then(|ask| ask.location(&pod(containers)));
        asked.map_err(|status| format!("{} {}", status.code, status.message))
    }

    #[test]
    fn options_become_kubelet_paths_and_queries() {
        use PodSubresource::{Attach, Exec, Log, PortForward};
        for (part, query, want) in [
            (Log, "", "/containerLogs/n/p/a"),
            (Log, "container=i&follow=maybe&previous=false", "/containerLogs/n/p/i?follow=true"),
            (
                Log,
                "tailLines=0&limitBytes=9&sinceTime=2020-01-02T03:04:05%2B01:00&pretty=true",
                "/containerLogs/n/p/a?tailLines=0&limitBytes=9&sinceTime=2020-01-02T02%3A04%3A05Z",
            ),
            (
                Exec,
                "command=sh&command=-c&command=a%20b&stdin=true&stdout=1&stderr=0&tty=true",
                "/exec/n/p/a?input=1&output=1&tty=1&command=sh&command=-c&command=a+b",
            ),
            (Attach, "stdout=true&stderr=true", "/attach/n/p/a?output=1&error=1"),
            (PortForward, "ports=80&ports=81,82", "/portForward/n/p?port=80%2C81%2C82"),
            (PortForward, "", "/portForward/n/p"),
        ] {
            assert_eq!(location(part, query, &["a"]).as_deref(), Ok(want), "{query}");
        }
    }

    #[test]
    fn invalid_options_are_rejected_with_upstream_messages() {
        use PodSubresource::{Exec, Log, PortForward};
        for (part, query, want) in [
            (Exec, "", "400 a container name must be specified for pod p, choose one of: [i a b]"),
            (Log, "container=x", "400 container x is not valid for pod p"),
            (Log, "tailLines=abc", "400 strconv.ParseInt: parsing \"abc\": invalid syntax"),
            (PortForward, "ports=http", "400 strconv.ParseInt: parsing \"http\": invalid syntax"),
            (
                Log,
                "tailLines=-1&limitBytes=0&sinceSeconds=0&stream=All",
                "422 PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal \
                 to 0, limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must \
                 be greater than 0, stream: Forbidden: may not be specified]",
            ),
            (
                Log,
                "sinceSeconds=4&sinceTime=2020-01-01T00:00:00Z",
                "422 PodLogOptions \"p\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` \
                 may be specified",
            ),
        ] {
            assert_eq!(location(part, query, &["a", "b"]), Err(want.to_owned()), "{query}");
        }
    }
}
