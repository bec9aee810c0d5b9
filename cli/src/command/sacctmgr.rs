//! `sacctmgr`: accounts, users, associations and qualities of service.

use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    os::fd::AsFd,
};

use gpun_compat::{
    option::{
        Flag, Support, Takes,
        getopt::{self, Parsed},
        man,
    },
    sacctmgr::{
        COMMIT_QUESTION, COMMIT_WAIT_S, DISCARDED, Proposal, Stop, World, add, delete, dump, load, modify,
        show::{self, Controller, Look},
        table::Style,
        words::{Verb, verb},
    },
};
use gpun_proto::{
    core::{Outcome, Refusal, accounting::Book, command::Act},
    quick::Quick,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    command::help::slurm_version,
    controller,
    out::{Out, complain},
};

const fn flag(long: &'static str, short: Option<char>, help: &'static str) -> Flag {
    Flag {
        long,
        short,
        takes: Takes::Nothing,
        env: &[],
        help,
        man: man::of(man::SACCTMGR, long),
        support: Support::Done,
    }
}

/// The options.
pub static FLAGS: [Flag; 11] = [
    flag("help", Some('h'), "show this help"),
    flag("usage", None, "show this help"),
    flag("immediate", Some('i'), "commit changes without asking"),
    flag("noheader", Some('n'), "no headings"),
    flag("oneliner", Some('o'), "one line for each record"),
    flag("parsable", Some('p'), "fields end in `|`"),
    flag("parsable2", Some('P'), "fields with `|` between them"),
    flag("quiet", Some('Q'), "no messages but errors"),
    flag("readonly", Some('r'), "no changes"),
    flag("associations", Some('s'), "users and accounts with their associations"),
    flag("version", Some('V'), "show the version"),
];

/// The options of one call.
#[derive(Default)]
struct Options {
    look: Look,
    immediate: bool,
    quiet: bool,
    readonly: bool,
}

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let flags: Vec<&Flag> = FLAGS.iter().collect();
    let parsed = match getopt::parse(&flags, args, true) {
        Ok(parsed) => parsed,
        Err(error) => {
            complain(&format!("sacctmgr: {error}\nTry \"sacctmgr --help\" for more information"));
            return 1;
        }
    };
    let mut options = Options::default();
    for found in &parsed.options {
        match FLAGS.get(found.index).map(|flag| flag.long) {
            Some("help" | "usage") => return print(&usage(), 0),
            Some("version") => return print(&format!("{}\n", slurm_version()), 0),
            Some("immediate") => options.immediate = true,
            Some("noheader") => options.look.bare = true,
            Some("parsable") => options.look.style = Style::Parsable,
            Some("parsable2") => options.look.style = Style::Parsable2,
            Some("quiet") => options.quiet = true,
            Some("readonly") => options.readonly = true,
            Some("associations") => options.look.associations = true,
            _ => {}
        }
    }
    command(&parsed, &options)
}

fn command(parsed: &Parsed, options: &Options) -> u8 {
    let mut words: Vec<String> = parsed.operands.clone();
    if words.is_empty() {
        return print(&usage(), 0);
    }
    let first = words.remove(0);
    let Some(verb) = verb(&first) else {
        complain(&format!("invalid keyword: {first}"));
        return 1;
    };
    if options.readonly && matches!(verb, Verb::Add | Verb::Delete | Verb::Modify | Verb::Load | Verb::Clear) {
        complain("Can't run this command in readonly mode.");
        return 1;
    }
    match verb {
        Verb::Help => return print(&usage(), 0),
        Verb::Version => return print(&format!("{}\n", slurm_version()), 0),
        Verb::Archive => {
            complain("sacctmgr: error: gpunion keeps ended jobs itself: there is nothing to archive or to load");
            return 1;
        }
        Verb::Clear | Verb::Daemon => {
            complain("sacctmgr: error: there is no slurmdbd: the controller keeps accounting itself");
            return 1;
        }
        _ => {}
    }
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return failed(&error),
    };
    let world = match world(&mut quick) {
        Ok(world) => world,
        Err(error) => return failed(&error),
    };
    let proposal = match verb {
        Verb::Show => {
            return match controller_of(&mut quick)
                .map_err(|error| Stop::err(format!("sacctmgr: error: {}\n", controller::words(&error))))
                .and_then(|controller| show::show(&world, &words, options.look, &controller))
            {
                Ok(text) => print(&text, 0),
                Err(stop) => stopped(&stop),
            };
        }
        Verb::Ping => {
            let host = controller_of(&mut quick).map(|controller| controller.host).unwrap_or_default();
            return print(&format!("slurmdbd(primary) at {host} is UP\n"), 0);
        }
        Verb::Dump => return dumped(&world, &words),
        Verb::Add => add::add(&world, &words),
        Verb::Modify => modify::modify(&world, &words),
        Verb::Delete => delete::delete(&world, &words),
        Verb::Load => match file_of(&words) {
            Some(path) => match fs::read_to_string(&path) {
                Ok(text) => load::load(&world, &text),
                Err(error) => Err(Stop::err(format!("sacctmgr: error: Unable to read {path}: {}\n", reason(&error)))),
            },
            None => Err(Stop::err(" Need file to load\n")),
        },
        _ => return 1,
    };
    match proposal {
        Ok(proposal) => commit(&mut quick, &proposal, options),
        Err(stop) => stopped(&stop),
    }
}

fn print(text: &str, status: u8) -> u8 {
    let mut out = Out::default();
    out.text(text);
    out.finish(status)
}

fn complain_text(text: &str) {
    if !text.is_empty() {
        complain(text.strip_suffix('\n').unwrap_or(text));
    }
}

fn stopped(stop: &Stop) -> u8 {
    complain_text(&stop.err);
    print(&stop.out, stop.status)
}

fn failed(error: &gpun_proto::quick::CallError) -> u8 {
    complain(&format!("sacctmgr: error: {}", controller::words(error)));
    controller::hint(error);
    1
}

fn usage() -> String {
    let lines = FLAGS.iter().map(|flag| {
        let short = flag.short.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
        format!("  {short}--{:<14} {}\n", flag.long, flag.help)
    });
    format!(
        "Usage: sacctmgr [OPTIONS] add|delete|modify|show|list ENTITY [NAMES] [KEY=VALUE...] [where ...] [set ...]\n                sacctmgr [OPTIONS] dump CLUSTER [file=FILE] | load FILE | ping | version\nEntities: account, association, cluster,          coordinator, problem, qos, runawayjobs, tres, user\nOptions:\n{}",
        lines.collect::<String>()
    )
}

fn world(quick: &mut Quick) -> Result<World, gpun_proto::quick::CallError> {
    let view = controller::show_accounting(quick)?;
    Ok(World {
        book: Book::from_view(&view),
        cluster: view.cluster,
        is_operator: view.is_operator,
        caller: view.caller.to_lowercase(),
        gres: view.gres,
        active: view.active.into_iter().map(|(id, _)| id).collect(),
    })
}

fn controller_of(quick: &mut Quick) -> Result<Controller, gpun_proto::quick::CallError> {
    let cluster = controller::show_cluster(quick)?;
    Ok(Controller { host: cluster.host, port: 0 })
}

fn file_of(words: &[String]) -> Option<String> {
    let named = words.iter().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        key.eq_ignore_ascii_case("file").then(|| value.to_owned())
    });
    named.or_else(|| words.iter().find(|word| !word.contains('=') && *word != "clean").cloned())
}

/// The words of an error of the system, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn dumped(world: &World, words: &[String]) -> u8 {
    let cluster = words.iter().find_map(|word| match word.split_once('=') {
        None => Some(word.clone()),
        Some((key, value)) if key.eq_ignore_ascii_case("cluster") => Some(value.to_owned()),
        Some(_) => None,
    });
    let Some(cluster) = cluster else {
        complain(" We need a cluster to dump.");
        return 1;
    };
    if !cluster.eq_ignore_ascii_case(&world.cluster) {
        complain(&format!(" No cluster named {cluster}"));
        return 1;
    }
    let named = words.iter().filter_map(|word| word.split_once('='));
    let file = named.filter(|(key, _)| key.eq_ignore_ascii_case("file")).map(|(_, value)| value.to_owned()).next();
    let file = file.unwrap_or_else(|| format!("./{}.cfg", world.cluster));
    let (head, lines) = dump::dump(&world.book, &world.cluster);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if let Err(error) = fs::write(&file, format!("{head}{text}")) {
        complain(&format!("sacctmgr: error: Can't open {file}: {}", reason(&error)));
        return 1;
    }
    lines.iter().for_each(|line| complain(&format!("sacctmgr: {line}")));
    0
}

/// Asks, and makes the change.
fn commit(quick: &mut Quick, proposal: &Proposal, options: &Options) -> u8 {
    let mut out = Out::default();
    if !options.quiet {
        out.text(&proposal.text);
    }
    out.flush();
    if !options.immediate && !confirmed() {
        return print(DISCARDED, 0);
    }
    match controller::act(quick, &Act::Account(proposal.changes.clone())) {
        Ok(Outcome::Refused(refusal)) => {
            complain(&format!("{}{}", proposal.trouble, refused(&refusal)));
            1
        }
        Ok(_) => out.finish(0),
        Err(error) => failed(&error),
    }
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::AccessDenied => "Access/permission denied".to_owned(),
        other => other.to_string(),
    }
}

/// Asks on standard output; no answer in time means no.
fn confirmed() -> bool {
    let mut stdout = io::stdout().lock();
    if stdout.write_all(COMMIT_QUESTION.as_bytes()).and_then(|()| stdout.flush()).is_err() {
        return false;
    }
    let stdin = io::stdin();
    let wait_ms = i32::try_from(COMMIT_WAIT_S * 1000).unwrap_or(i32::MAX);
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut fds, PollTimeout::try_from(wait_ms).unwrap_or(PollTimeout::MAX)).is_ok_and(|ready| ready > 0);
    let mut first = [0];
    let yes = ready && stdin.lock().read(&mut first).is_ok_and(|read| read == 1) && matches!(first[0], b'y' | b'Y');
    // On a terminal the answer ended the line.
    if !stdin.is_terminal() {
        let _ = stdout.write_all(b"\n");
    }
    yes
}
