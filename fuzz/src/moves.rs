//! The moves of a story: one letter each, followed by the digits of its choices.
//!
//! ```text
//! clients                                    servers
//!   a unix       connects                      c which fails    a connect ends
//!   l who        startup packet                r who how        answers its oldest request
//!   s who        SSLRequest                    A who what       says something unasked
//!   S who bytes  TLS without an SSLRequest     R who what       says nonsense
//!   m who what   any message                   D who bytes      is read
//!   e who ...    Parse Bind Execute Sync       K who            closes
//!   g who bytes  nonsense                    others
//!   h who ...    a header that lies            v                everything arrives and is answered well
//!   x who        spoils its last byte          t which how      a TLS handshake ends
//!   d who bytes  is read                       z which          a cancel ends
//!   k who        closes                        T how long       time passes
//!   n ...        connects and logs in          C which          a signal
//!   Z who        a CancelRequest for it        L how            the answer to a reload
//! ```

use crate::configuration;
use crate::handshakes::Handshake;
use crate::story::Story;
use crate::world::World;
use pgweir_config::{Place, Problem};
use pgweir_core::{Command, ReloadOutcome};
use pgweir_wire::{CancelKey, StartupPacket};
use std::time::Duration;

const MOVES: &[u8] = b"alsmeghxdknZcrARDKvzTCLSt";

/// The most moves of one story.
const MOVES_MAX: usize = 250;

/// The most connections of one story.
const CONNECTIONS_MAX: usize = 24;

/// The most bytes read together.
const CHUNKS: [usize; 10] = [usize::MAX, 1, 2, 3, 4, 5, 6, 9, 30, 200];

/// Stories in which the first client logs in and is answered. If one is not, the server that plays PostgreSQL lacks
/// something that the pooler asks for, and no story gets beyond a login.
const REACHES: [&str; 9] = [
    "00000000 n000 m00 v",
    "10000000 n000 m00 v",
    "20000000 n000 m00 v",
    "13000001 n000 m00 v",
    "15000002 n030 m00 v",
    "10000003 a0 s0 d00 t00 l000 d00 v m00 v",
    "10000004 a0 s0 d00 t00 l000 d00 v m00 v",
    "10000005 a0 s0 d00 t02 l000 d00 v m00 v",
    "10000006 n000 v m00 v",
];

/// Proves that stories reach sessions.
pub fn prove_reach() {
    for text in REACHES {
        let world = tell(text.as_bytes());
        let readies = world.clients.first().map_or(0, |client| client.readies);
        assert_eq!(readies, 2, "the client of the story {text:?} is not answered");
    }
}

/// Runs a story: a configuration, then moves.
pub fn tell(bytes: &[u8]) -> World {
    let mut story = Story::new(bytes);
    let mut world = World::new(configuration::read(&mut story));
    for _ in 0..MOVES_MAX {
        let Some(byte) = story.byte() else { break };
        if byte.is_ascii_whitespace() {
            continue;
        }
        let letter = if MOVES.contains(&byte) {
            byte
        } else {
            MOVES[usize::from(byte) % MOVES.len()]
        };
        world.say(|| format!("-- {}", char::from(letter)));
        make_move(letter, &mut world, &mut story);
        world.check();
        if world.exited {
            return world;
        }
    }
    world.end();
    world
}

fn make_move(letter: u8, world: &mut World, story: &mut Story<'_>) {
    match letter {
        b'a' | b'n' => {
            if !world.listening || world.clients.len() >= CONNECTIONS_MAX {
                return;
            }
            let unix = letter == b'a' && story.pick(2) == 1;
            let place = world.accept(unix);
            if letter == b'n' {
                world.clients[place].start(story);
                world.come_to_rest();
            }
        }
        b'Z' => cancel_request(world, story),
        b'l' | b's' | b'S' | b'm' | b'e' | b'g' | b'h' | b'x' | b'd' | b'k' => {
            if world.clients.is_empty() {
                return;
            }
            let place = story.pick(world.clients.len());
            let client = &mut world.clients[place];
            match letter {
                b'l' => client.start(story),
                b's' => client.ask_for_tls(),
                b'S' => client.begin_tls(story),
                b'm' => client.say(story),
                b'e' => client.say_prepared(story),
                b'g' => client.say_nonsense(story),
                b'h' => client.lie(story),
                b'x' => client.spoil(story),
                b'd' => {
                    let most = story.one_of(&CHUNKS);
                    world.read_client(place, most);
                }
                _ => world.client_closes(place),
            }
        }
        b'c' => {
            if !world.connects.is_empty() {
                let which = story.pick(world.connects.len());
                let fails = story.pick(2) == 1;
                world.finish_connect(which, !fails);
            }
        }
        b'r' | b'A' | b'R' | b'D' | b'K' => {
            if world.servers.is_empty() {
                return;
            }
            // The latest ones first: most of the others are gone.
            let place = world.servers.len() - 1 - story.pick(world.servers.len());
            if !world.servers[place].connected {
                return;
            }
            match letter {
                b'r' => world.servers[place].answer(story, &mut world.cache),
                b'A' => world.servers[place].speak_unasked(story),
                b'R' => world.servers[place].speak_nonsense(story),
                b'D' => {
                    let most = story.one_of(&CHUNKS);
                    world.read_server(place, most);
                }
                _ => world.server_closes(place),
            }
        }
        b'v' => world.come_to_rest(),
        b't' => {
            if !world.handshakes.is_empty() {
                let which = story.pick(world.handshakes.len());
                let end = story.one_of(&[Handshake::Nameless, Handshake::Failed, Handshake::Named("alice")]);
                world.finish_handshake(which, end);
            }
        }
        b'z' => {
            if !world.cancels.is_empty() {
                let which = story.pick(world.cancels.len());
                world.finish_cancel(which);
            }
        }
        b'T' => {
            let ms = story.one_of(&[100, 1, 0, 600, 1100, 2200, 5000, 20_000, 130_000, 4_000_000]);
            world.pass_time(Duration::from_millis(ms));
        }
        b'C' => {
            let command = story.one_of(&[
                Command::Reload,
                Command::Pause,
                Command::Resume,
                Command::ShutdownWaitForClients,
                Command::ShutdownWaitForServers,
                Command::ShutdownImmediate,
            ]);
            world.command(command);
        }
        _ => {
            if !world.reloads.is_empty() {
                let which = story.pick(world.reloads.len());
                let outcome = match story.pick(2) {
                    0 => ReloadOutcome::New(configuration::read(story), Vec::new()),
                    _ => ReloadOutcome::Bad(vec![Problem::error(&Place::file("pgweir.ini"), "no")]),
                };
                world.finish_reload(which, outcome);
            }
        }
    }
}

/// A connection that asks for a client's query to be cancelled, by its own key or by a wrong one.
fn cancel_request(world: &mut World, story: &mut Story<'_>) {
    if world.clients.is_empty() || !world.listening || world.clients.len() >= CONNECTIONS_MAX {
        return;
    }
    let whose = story.pick(world.clients.len());
    let key = world.clients[whose].key.clone().unwrap_or(CancelKey {
        process_id: 1,
        secret: Box::from([0; 4]),
    });
    let place = world.accept(false);
    StartupPacket::write_cancel(&mut world.clients[place].outgoing, &key);
    world.read_client(place, usize::MAX);
}
