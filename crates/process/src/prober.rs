//! Executes probe and hook handlers: exec, httpGet, tcpSocket, sleep. Each runs in its own thread with a timeout.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::pod_run_spec::ProbeHandler;

use crate::pod_dirs::RunId;
use crate::runtime::{ContainerRuntime, ExecOptions};

/// Maximum output of a failed exec probe, in bytes; as in the kubelet.
const OUTPUT_MAX: u64 = 10 * 1024;
/// Maximum status line of an HTTP probe, in bytes.
const ANSWER_MAX: u64 = 8 * 1024;

/// Stack size of a probe thread.
const STACK_BYTES: usize = 256 * 1024;
/// After the exit, output is read for at most this long: a background process may keep the pipe open.
const OUTPUT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Called with the result of a probe.
pub type OnProbeResult = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Starts a probe; `done` is called from its thread.
pub fn run_probe(
    containers: Arc<dyn ContainerRuntime>,
    id: RunId,
    address: String,
    check: ProbeHandler,
    timeout: Duration,
    done: OnProbeResult,
) {
    // Shared, since either the thread or, if it cannot be spawned, this function reports the result.
    let done = Arc::new(Mutex::new(Some(done)));
    let tell = |done: &Mutex<Option<OnProbeResult>>, found| {
        if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).take() {
            done(found);
        }
    };
    let theirs = done.clone();
    let body = move || tell(&theirs, look(&*containers, &id, &address, &check, timeout));
    let thread = std::thread::Builder::new().name("check".to_owned()).stack_size(STACK_BYTES).spawn(body);
    if let Err(error) = thread {
        tell(&done, Err(format!("cannot start a thread for the probe: {error}")));
    }
}

fn look(
    containers: &dyn ContainerRuntime,
    id: &RunId,
    address: &str,
    check: &ProbeHandler,
    timeout: Duration,
) -> Result<(), String> {
    let host = |named: &str| if named.is_empty() { address.to_owned() } else { named.to_owned() };
    match check {
        ProbeHandler::Exec(command) => {
            exec(containers, id, command.iter().map(ToString::to_string).collect(), timeout)
        }
        ProbeHandler::Http { tls: true, .. } => {
            Err("HTTPS requests are not made by this node: use HTTP, a TCP connection or a command"
                .to_owned())
        }
        ProbeHandler::Http { host: named, port, path, headers, tls: false } => {
            let headers: Vec<(String, String)> =
                headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            http(&host(named), *port, path, &headers, timeout)
        }
        ProbeHandler::Tcp { host: named, port } => connect(&host(named), *port, timeout).map(|_| ()),
        ProbeHandler::Sleep(pause) => {
            std::thread::sleep(*pause);
            Ok(())
        }
        ProbeHandler::Unsupported(word) => {
            Err(format!("{word} checks are not made by this node: use httpGet, tcpSocket or exec"))
        }
    }
}

fn exec(
    containers: &dyn ContainerRuntime,
    id: &RunId,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<(), String> {
    let mut exec = containers.exec(id, &ExecOptions { argv, stdin: false, tty: false })?;
    let kill = exec.process.killer();
    let (ended, end) = channel();
    let (output_sender, said) = channel();
    // One reader per stream: a full pipe would block the command.
    for pipe in exec.stdout.take().into_iter().chain(exec.stderr.take()) {
        let output_sender = output_sender.clone();
        std::thread::spawn(move || {
            let _ = output_sender.send(drain(pipe));
        });
    }
    drop(output_sender);
    std::thread::spawn(move || {
        let _ = ended.send(exec.process.wait());
    });
    let code = end.recv_timeout(timeout);
    // After a timeout the command must not keep running; after its exit this is a no-op.
    kill();
    let said: String = std::iter::from_fn(|| said.recv_timeout(OUTPUT_WAIT_MAX).ok()).collect();
    match code {
        Ok(Ok(0)) => Ok(()),
        Ok(Ok(_)) => Err(said),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("command timed out: it took longer than {timeout:?}")),
    }
}

/// Reads the first bytes; the rest is discarded, so that the command does not block on a full pipe.
fn drain(mut pipe: impl Read) -> String {
    let mut first = Vec::new();
    let _ = pipe.by_ref().take(OUTPUT_MAX).read_to_end(&mut first);
    let _ = io::copy(&mut pipe, &mut io::sink());
    String::from_utf8_lossy(&first).into_owned()
}

fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let told = |error: io::Error| format!("dial tcp {host}:{port}: {error}");
    let mut addresses = (host, port).to_socket_addrs().map_err(told)?;
    let address = addresses.next().ok_or_else(|| format!("{host} has no address"))?;
    TcpStream::connect_timeout(&address, timeout).map_err(told)
}

fn http(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(String, String)],
    timeout: Duration,
) -> Result<(), String> {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let url = format!("http://{host}:{port}{path}");
    let told = |error: io::Error| format!("Get \"{url}\": {error}");
    let mut stream = connect(host, port, timeout).map_err(|why| format!("Get \"{url}\": {why}"))?;
    stream.set_read_timeout(Some(timeout)).map_err(told)?;
    stream.set_write_timeout(Some(timeout)).map_err(told)?;
    let named = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !named("Host") {
        request += &format!("Host: {host}:{port}\r\n");
    }
    if !named("User-Agent") {
        request += "User-Agent: kube-probe/1.37\r\n";
    }
    if !named("Accept") {
        request += "Accept: */*\r\n";
    }
    headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
    request += "\r\n";
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut line).map_err(told)?;
    let code: u16 = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    match code {
        200..400 => Ok(()),
        0 => Err(format!("Get \"{url}\": not an HTTP answer: {:?}", line.trim_end())),
        _ => Err(format!("HTTP probe failed with statuscode: {code}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Serves one request with this status line.
    fn answering(line: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            stream.write_all(line.as_bytes()).unwrap();
        });
        port
    }

    #[test]
    fn http_probes_succeed_by_status_code() {
        for (line, want) in [
            ("HTTP/1.1 200 OK\r\n\r\n", None),
            ("HTTP/1.1 302 Found\r\n\r\n", None),
            ("HTTP/1.1 503 Busy\r\n\r\n", Some("HTTP probe failed with statuscode: 503")),
            ("hello\n", Some("not an HTTP answer")),
        ] {
            let found = http("127.0.0.1", answering(line), "health", &[], PROBE_TIMEOUT);
            match want {
                None => assert_eq!(found, Ok(()), "{line}"),
                Some(words) => assert!(found.unwrap_err().contains(words), "{line}"),
            }
        }
    }

    #[test]
    fn a_refused_connection_names_the_address() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let why = connect("127.0.0.1", port, PROBE_TIMEOUT).unwrap_err();
        assert!(why.contains(&format!("dial tcp 127.0.0.1:{port}")), "{why}");
    }
}
