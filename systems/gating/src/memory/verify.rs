//! Holds the commands of a channel to the device's timing, without knowing how they were chosen.
//!
//! Every pair of commands that a rule is about is compared in order of time, per bank, group, rank
//! and channel, as the standards state the rules (JESD79-3F section 4, JESD79-4B section 4).

use std::collections::VecDeque;

use super::command::{Command, Order};
use super::timing::{MemorySettings, Ps, Timing};

#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u64>,
    activated: Option<Ps>,
    closed: Option<Ps>,
    read: Option<Ps>,
    written: Option<Ps>,
    /// A precharge that comes by itself.
    closing: bool,
}

struct Rank {
    banks: Vec<Bank>,
    activations: VecDeque<(Ps, usize)>,
    refreshed: Option<Ps>,
    refreshes: u64,
}

/// Checks the commands of one channel.
///
/// # Errors
/// The first command that breaks a rule, with the rule.
pub fn verify(settings: &MemorySettings, commands: &[Command]) -> Result<(), String> {
    let mut sorted = commands.to_vec();
    sorted.sort_by_key(|command| command.at);
    let timing = Timing::of(settings);
    let rank = || Rank {
        banks: vec![Bank::default(); settings.banks],
        activations: VecDeque::new(),
        refreshed: None,
        refreshes: 0,
    };
    let mut ranks: Vec<Rank> = (0..settings.ranks).map(|_| rank()).collect();
    let mut columns: Vec<Command> = Vec::new();
    for pair in sorted.windows(2) {
        need(&pair[1], "one command a clock", pair[0].at, timing.ck)?;
    }
    for command in &sorted {
        if command.at % timing.ck != 0 {
            return Err(format!("{command:?}: not at an edge of the clock"));
        }
        let rank = &mut ranks[command.rank];
        if let Some(refreshed) = rank.refreshed {
            need(command, "tRFC", refreshed, timing.rfc)?;
        }
        match command.order {
            Order::Activate => activate(rank, settings, &timing, command)?,
            Order::Precharge => precharge(&mut rank.banks[command.bank], &timing, command)?,
            Order::PrechargeAll => {
                for bank in rank.banks.iter_mut().filter(|bank| bank.row.is_some()) {
                    if !bank.closing {
                        precharge(bank, &timing, command)?;
                    }
                }
            }
            Order::Refresh => refresh(rank, &timing, command)?,
            _ => {
                column(rank, settings, &timing, &columns, command)?;
                columns.push(*command);
                if columns.len() > 16 {
                    columns.remove(0);
                }
            }
        }
    }
    let end = sorted.last().map_or(0, |command| command.at);
    for (index, rank) in ranks.iter().enumerate() {
        let due = (end / timing.refi).saturating_sub(8);
        if rank.refreshes < due {
            return Err(format!("rank {index}: {} refreshes of {due}", rank.refreshes));
        }
    }
    Ok(())
}

fn need(command: &Command, rule: &str, since: Ps, least: Ps) -> Result<(), String> {
    if command.at >= since + least {
        return Ok(());
    }
    Err(format!(
        "{command:?}: {rule}: {} ps after {since}, not {least}",
        command.at - since.min(command.at)
    ))
}

fn activate(
    rank: &mut Rank,
    settings: &MemorySettings,
    timing: &Timing,
    command: &Command,
) -> Result<(), String> {
    close_by_itself(&mut rank.banks[command.bank], timing);
    let bank = &rank.banks[command.bank];
    if bank.row.is_some() {
        return Err(format!("{command:?}: another row is open"));
    }
    if let Some(closed) = bank.closed {
        need(command, "tRP", closed, timing.rp)?;
    }
    let group = command.bank % settings.groups;
    for (at, other) in &rank.activations {
        need(command, "tRRD", *at, timing.rrd[usize::from(*other == group)])?;
    }
    if rank.activations.len() == 4 {
        need(command, "tFAW", rank.activations[0].0, timing.faw)?;
        rank.activations.pop_front();
    }
    rank.activations.push_back((command.at, group));
    let bank = &mut rank.banks[command.bank];
    *bank = Bank { row: Some(command.row), activated: Some(command.at), ..Bank::default() };
    Ok(())
}

fn precharge(bank: &mut Bank, timing: &Timing, command: &Command) -> Result<(), String> {
    if bank.closing {
        return Err(format!("{command:?}: the row closes by itself"));
    }
    if let Some(activated) = bank.activated {
        need(command, "tRAS", activated, timing.ras)?;
    }
    if let Some(read) = bank.read {
        need(command, "tRTP", read, timing.rtp)?;
    }
    if let Some(written) = bank.written {
        need(command, "tWR", written + timing.cwl + timing.burst, timing.wr)?;
    }
    *bank = Bank { closed: Some(command.at), ..Bank::default() };
    Ok(())
}

/// A row that closes by itself does so at the earliest time a precharge could be.
fn close_by_itself(bank: &mut Bank, timing: &Timing) {
    if bank.closing {
        let after = |at: Option<Ps>, span: Ps| at.map_or(0, |at| at + span);
        let closed = after(bank.activated, timing.ras)
            .max(after(bank.read, timing.rtp))
            .max(after(bank.written, timing.cwl + timing.burst + timing.wr));
        *bank = Bank { closed: Some(closed), ..Bank::default() };
    }
}

fn refresh(rank: &mut Rank, timing: &Timing, command: &Command) -> Result<(), String> {
    for bank in &mut rank.banks {
        close_by_itself(bank, timing);
        if bank.row.is_some() {
            return Err(format!("{command:?}: a row is open"));
        }
        if let Some(closed) = bank.closed {
            need(command, "tRP before a refresh", closed, timing.rp)?;
        }
    }
    rank.refreshed = Some(command.at);
    rank.refreshes += 1;
    Ok(())
}

fn column(
    rank: &mut Rank,
    settings: &MemorySettings,
    timing: &Timing,
    before: &[Command],
    command: &Command,
) -> Result<(), String> {
    let bank = &mut rank.banks[command.bank];
    if bank.row != Some(command.row) || bank.closing {
        return Err(format!("{command:?}: the row is not open"));
    }
    need(command, "tRCD", bank.activated.unwrap_or(0), timing.rcd)?;
    let write = is_write(command);
    let latency = |write: bool| if write { timing.cwl } else { timing.cl };
    for other in before {
        let same = other.rank == command.rank;
        let group = same && other.bank % settings.groups == command.bank % settings.groups;
        need(command, "tCCD", other.at, timing.ccd[usize::from(group)])?;
        let ends = other.at + latency(is_write(other)) + timing.burst;
        let gap = if same { 0 } else { timing.rtrs };
        let data = Command { at: command.at + latency(write), ..*command };
        need(&data, "the data bus", ends, gap)?;
        if same && is_write(other) && !write {
            need(command, "tWTR", ends, timing.wtr[usize::from(group)])?;
        }
    }
    let at = Some(command.at);
    *(if write { &mut bank.written } else { &mut bank.read }) = at;
    bank.closing = matches!(command.order, Order::ReadClosing | Order::WriteClosing);
    Ok(())
}

fn is_write(command: &Command) -> bool {
    matches!(command.order, Order::Write | Order::WriteClosing)
}
