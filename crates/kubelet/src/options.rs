//! Query parameters of requests.

use std::collections::BTreeSet;

use muster_api::time::Time;
use muster_process::logs;

use crate::response::HttpError;

/// Maximum ports per request.
const PORTS_MAX: usize = 64;

pub(crate) struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    pub fn parse(text: &str) -> QueryParams {
        let pairs = form_urlencoded::parse(text.as_bytes());
        QueryParams(pairs.map(|(k, v)| (k.into_owned(), v.into_owned())).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    fn number(&self, key: &str) -> Result<Option<i64>, HttpError> {
        self.get(key).map(|text| text.parse().map_err(|_| undecodable())).transpose()
    }

    /// A boolean as Go's conversion parses it: present and neither `false` nor `0`.
    fn flag(&self, key: &str) -> bool {
        self.0.iter().find(|(k, _)| k == key).is_some_and(|(_, v)| !matches!(v.as_str(), "false" | "0"))
    }
}

fn undecodable() -> HttpError {
    HttpError::new(400, r#"{"message": "Unable to decode query."}"#)
}

/// The requested stdio streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl StreamOptions {
    /// Kubelet parameters: `input=1`, `output=1`, `error=1`, `tty=1`.
    ///
    /// # Errors
    /// 400 if no stream is requested.
    pub fn of(query: &QueryParams) -> Result<StreamOptions, HttpError> {
        let wanted = |key| query.get(key) == Some("1");
        let tty = wanted("tty");
        let streams = StreamOptions {
            stdin: wanted("input"),
            stdout: wanted("output"),
            // A terminal has no separate stderr.
            stderr: wanted("error") && !tty,
            tty,
        };
        if !streams.stdin && !streams.stdout && !streams.stderr {
            return Err(HttpError::new(400, "you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(streams)
    }
}

/// The command to run.
///
/// # Errors
/// 400 if it is missing.
pub(crate) fn command(query: &QueryParams) -> Result<Vec<String>, HttpError> {
    let argv: Vec<String> = query.all("command").map(str::to_owned).collect();
    match argv.first() {
        Some(program) if !program.is_empty() => Ok(argv),
        _ => Err(HttpError::new(400, "you must specify a command: command=PROGRAM&command=ARGUMENT")),
    }
}

/// The ports to forward, in order: `port=80,443`, or repeated.
///
/// # Errors
/// 400 if there is none, or one is invalid.
pub(crate) fn ports(query: &QueryParams) -> Result<Vec<u16>, HttpError> {
    let mut ports = Vec::new();
    let mut seen = BTreeSet::new();
    for text in query.all("port").flat_map(|list| list.split(',')).filter(|text| !text.is_empty()) {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| HttpError::new(400, format!("unable to parse {text:?} as a port")))?;
        if seen.insert(port) {
            ports.push(port);
        }
    }
    match ports.len() {
        0 => Err(HttpError::new(400, "query parameter \"port\" is required")),
        1..=PORTS_MAX => Ok(ports),
        many => Err(HttpError::new(400, format!("{many} ports are too many: at most {PORTS_MAX}"))),
    }
}

/// Options of a log request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodLogOptions {
    pub follow: bool,
    pub previous: bool,
    pub part: logs::LogOptions,
}

impl PodLogOptions {
    /// # Errors
    /// 400 for malformed values, 422 for contradictory ones.
    pub fn of(query: &QueryParams, now: Time) -> Result<PodLogOptions, HttpError> {
        let tail = if query.get("tail").is_some() { "tail" } else { "tailLines" };
        let tail = if query.get(tail) == Some("all") { None } else { query.number(tail)? };
        let since_secs = query.number("sinceSeconds")?;
        let since_time =
            query.get("sinceTime").map(|t| Time::parse(t).ok_or_else(undecodable)).transpose()?;
        let limit = query.number("limitBytes")?;
        let stream = match query.get("stream") {
            None | Some("All") => None,
            Some("Stdout") => Some(logs::LogStream::Stdout),
            Some("Stderr") => Some(logs::LogStream::Stderr),
            Some(_) => return Err(invalid()),
        };
        let is_contradictory = since_secs.is_some() && since_time.is_some();
        let too_small = tail.is_some_and(|n| n < 0)
            || since_secs.is_some_and(|n| n < 1)
            || limit.is_some_and(|n| n < 1)
            || (stream.is_some() && tail.is_some());
        if is_contradictory || too_small {
            return Err(invalid());
        }
        let ago = |secs: i64| Time(now.0.saturating_sub(secs.saturating_mul(1_000_000)));
        let part = logs::LogOptions {
            timestamps: query.flag("timestamps"),
            tail_lines: tail.map(i64::unsigned_abs),
            since: since_time.or(since_secs.map(ago)),
            limit_bytes: limit.map(i64::unsigned_abs),
            stream,
        };
        Ok(PodLogOptions { follow: query.flag("follow"), previous: query.flag("previous"), part })
    }
}

fn invalid() -> HttpError {
    HttpError::new(422, r#"{"message": "Invalid request."}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams() {
        let of = |text: &str| StreamOptions::of(&QueryParams::parse(text)).map_err(|refusal| refusal.code);
        let none = StreamOptions { stdin: false, stdout: false, stderr: false, tty: false };
        assert_eq!(of("output=1&error=1"), Ok(StreamOptions { stdout: true, stderr: true, ..none }));
        assert_eq!(
            of("input=1&output=1&error=1&tty=1"),
            Ok(StreamOptions { stdin: true, stdout: true, tty: true, ..none }),
            "a terminal has one output"
        );
        assert_eq!(of("tty=1"), Err(400));
        assert_eq!(of("output=true"), Err(400), "a kubelet is asked with 1");
    }

    #[test]
    fn commands() {
        let of = |text: &str| command(&QueryParams::parse(text)).map_err(|refusal| refusal.code);
        assert_eq!(of("command=echo&command=a+b&command="), Ok(vec!["echo".into(), "a b".into(), "".into()]));
        assert_eq!(of("command=&command=x"), Err(400));
        assert_eq!(of(""), Err(400));
    }

    #[test]
    fn forwarded_ports() {
        let of = |text: &str| ports(&QueryParams::parse(text)).map_err(|refusal| refusal.code);
        assert_eq!(of("port=80,443&port=80&port=9"), Ok(vec![80, 443, 9]));
        for wrong in ["", "port=", "port=0", "port=65536", "port=http"] {
            assert_eq!(of(wrong), Err(400), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_log() {
        let of = |text: &str| {
            let query = QueryParams::parse(text);
            PodLogOptions::of(&query, Time(100_000_000)).map_err(|refusal| refusal.code)
        };
        let part = |part| Ok(PodLogOptions { part, ..PodLogOptions::default() });
        let all = logs::LogOptions::default;
        assert_eq!(of(""), part(all()));
        assert_eq!(of("follow=true").map(|options| options.follow), Ok(true));
        assert_eq!(of("follow=false&previous=0"), part(all()));
        assert_eq!(of("timestamps=1"), part(logs::LogOptions { timestamps: true, ..all() }));
        assert_eq!(of("tailLines=0"), part(logs::LogOptions { tail_lines: Some(0), ..all() }));
        assert_eq!(of("tail=all"), part(all()));
        let since = |micros| part(logs::LogOptions { since: Some(Time(micros)), ..all() });
        assert_eq!(of("sinceSeconds=40"), since(60_000_000));
        assert_eq!(of("sinceTime=1970-01-01T00:00:02Z"), since(2_000_000));
        let errors =
            logs::LogOptions { limit_bytes: Some(5), stream: Some(logs::LogStream::Stderr), ..all() };
        assert_eq!(of("limitBytes=5&stream=Stderr"), part(errors));
        for (wrong, code) in [
            ("tailLines=x", 400),
            ("sinceTime=yesterday", 400),
            ("tailLines=-1", 422),
            ("limitBytes=0", 422),
            ("sinceSeconds=0", 422),
            ("sinceSeconds=1&sinceTime=1970-01-01T00:00:02Z", 422),
            ("stream=Both", 422),
            ("stream=Stdout&tailLines=1", 422),
        ] {
            assert_eq!(of(wrong), Err(code), "{wrong}");
        }
    }
}
