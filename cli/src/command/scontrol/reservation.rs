//! `scontrol create`, `update` and `delete` of reservations.

use gpun_compat::{
    names::error::{self, Doing},
    reservation::{self, Change},
};
use gpun_proto::{
    core::{Outcome, Refusal, command::Act},
    quick::Quick,
};
use jiff::tz::TimeZone;

use super::wrong;
use crate::{controller, out::Out, slurm};

/// What Slurm says behind a refusal that may come from the partition.
const PARTITION_NOTE: &str = "Note, unless nodes are directly requested a reservation must exist in a single partition.\n\
                              If no partition is requested the default partition is assumed.";

/// `create` and `delete`; gives the exit status.
pub fn run(keyword: &str, words: &[String], out: &mut Out) -> u8 {
    let Some((first, rest)) = words.split_first() else {
        return wrong(&format!("too few arguments for {keyword} keyword"));
    };
    let (entity, value) = first.split_once('=').map_or((first.as_str(), None), |(key, value)| (key, Some(value)));
    let is_reservation = entity.len() >= 3
        && "reservationname".get(..entity.len()).is_some_and(|front| front.eq_ignore_ascii_case(entity));
    match (keyword, is_reservation, value) {
        ("create", true, None) => create(rest, out),
        // `create reservation=NAME ...`, and a name or any other key first.
        ("create", _, Some(_)) if is_reservation || !rest.is_empty() => create(words, out),
        ("create", ..) => wrong(&format!("scontrol: error: Invalid creation entity: {first}")),
        (_, true, Some(name)) => delete(first, name),
        (_, true, None) => match rest {
            [name] => delete(&format!("{entity} {name}"), name),
            _ => wrong("too few arguments for delete keyword"),
        },
        _ => wrong(&format!("Invalid deletion entity: {first}")),
    }
}

fn create(words: &[String], out: &mut Out) -> u8 {
    let zone = TimeZone::system();
    let wanted = match reservation::create(words, &slurm::context(&zone)) {
        Ok(wanted) => wanted,
        Err(text) => return wrong(&text),
    };
    let by_count = wanted.nodes.is_empty();
    let act = Act::CreateReservation(Box::new(wanted));
    match controller::connect().and_then(|mut quick| controller::act(&mut quick, &act)) {
        Ok(Outcome::Reserved { name }) => {
            out.line(&format!("Reservation created: {name}"));
            0
        }
        Ok(Outcome::Refused(why)) => {
            let text = format!("Error creating the reservation: {}", error::of(&why, Doing::Change));
            let note = by_count && why == Refusal::ReservationBusy;
            wrong(&if note { format!("{text}\n{PARTITION_NOTE}") } else { text })
        }
        Ok(_) => 0,
        Err(error) => slurm::failed("Error creating the reservation: ", &error),
    }
}

fn delete(written: &str, name: &str) -> u8 {
    let act = Act::DeleteReservation { name: name.to_owned() };
    match controller::connect().and_then(|mut quick| controller::act(&mut quick, &act)) {
        Ok(Outcome::Refused(why)) => {
            let text = match why {
                Refusal::ReservationBusy => "Requested reservation is in use".to_owned(),
                other => error::of(&other, Doing::Change),
            };
            wrong(&format!("delete_reservation {written}: {text}"))
        }
        Ok(_) => 0,
        Err(error) => slurm::failed("delete_reservation error: ", &error),
    }
}

/// `update reservation=NAME ...`; gives the exit status.
pub fn update(quick: &mut Quick, change: Change, out: &mut Out) -> u8 {
    let Change { name, mut change, users, accounts } = change;
    if users.is_some() || accounts.is_some() {
        let views = match controller::list_reservations(quick) {
            Ok((views, _)) => views,
            Err(error) => return slurm::failed("slurm_update error: ", &error),
        };
        if let Some(view) = views.iter().find(|view| view.reservation.name == name) {
            let named = |users: Vec<String>| users.into_iter().map(|name| (name, 0)).collect();
            change.users = users.map(|users| named(users.applied(&view.reservation.users)));
            change.accounts = accounts.map(|accounts| accounts.applied(&view.reservation.accounts));
        }
    }
    match controller::act(quick, &Act::UpdateReservation { name, change: Box::new(change) }) {
        Ok(Outcome::Refused(why)) => wrong(&format!("slurm_update error: {}", error::of(&why, Doing::Change))),
        Ok(_) => {
            out.line("Reservation updated.");
            0
        }
        Err(error) => slurm::failed("slurm_update error: ", &error),
    }
}
