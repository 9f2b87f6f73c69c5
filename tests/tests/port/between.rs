//! A proxy between a client and its server that can cut the connection or drop responses.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Whole,
    /// The next answer is swallowed, and its connection ends.
    Deaf,
    /// All connections are refused.
    Cut,
}

struct State {
    line: Line,
    open: Vec<TcpStream>,
}

/// Listens on a port of its own and passes everything on.
#[derive(Clone)]
pub struct Between {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Between {
    /// Passes everything on to `server`.
    pub fn new(server: SocketAddr) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let between =
            Between { address, state: Arc::new(Mutex::new(State { line: Line::Whole, open: Vec::new() })) };
        let here = between.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                here.connect(&client, server);
            }
        });
        between
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the line is so. Cutting ends the connections there are.
    pub fn set(&self, line: Line) {
        let mut state = self.state.lock().unwrap();
        state.line = line;
        if line == Line::Cut {
            state.open.drain(..).for_each(|stream| end(&stream));
        }
    }

    fn connect(&self, client: &TcpStream, server: SocketAddr) {
        let mut state = self.state.lock().unwrap();
        if state.line == Line::Cut {
            return end(client);
        }
        let Ok(server) = TcpStream::connect(server) else { return end(client) };
        let pair = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        state.open.extend([pair().0, pair().1]);
        let (from_client, to_server) = pair();
        std::thread::spawn(move || pass(from_client, to_server, || true));
        let (to_client, from_server) = pair();
        let here = self.clone();
        std::thread::spawn(move || {
            pass(from_server, to_client, || here.state.lock().unwrap().line != Line::Deaf);
        });
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn() -> bool) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !passes() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    end(&from);
    end(&to);
}

/// Already ended is fine.
fn end(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
