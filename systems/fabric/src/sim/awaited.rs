//! Which tokens are awaited and which have gone.

/// Which inputs still await tokens and which outputs have sent theirs.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) active: bool,
    /// New packets wait for the token of their output.
    pub(super) ordered: bool,
    pub(super) first_lane: u32,
    pub(super) end_lane: u32,
    pub(super) expected: Vec<bool>,
    pub(super) missing: Vec<u32>,
    pub(super) gone: Vec<bool>,
    pub(super) takes_part: Vec<bool>,
    /// For each input, the outputs that wait for its token.
    pub(super) waiting: Vec<Vec<u32>>,
    pub(super) inputs_left: Vec<u32>,
    pub(super) outputs_left: Vec<u32>,
    pub(super) started: Vec<bool>,
}

impl Tokens {
    pub(super) fn new(channels: usize, switches: usize) -> Tokens {
        Tokens {
            active: false,
            ordered: false,
            first_lane: 0,
            end_lane: 0,
            expected: vec![false; channels],
            missing: vec![0; channels],
            gone: vec![false; channels],
            takes_part: vec![false; channels],
            waiting: vec![Vec::new(); channels],
            inputs_left: vec![0; switches],
            outputs_left: vec![0; switches],
            started: vec![false; switches],
        }
    }

    /// Whether new packets must not go to an output yet.
    #[inline]
    pub(super) fn blocks(&self, output: u32) -> bool {
        self.ordered && self.takes_part[output as usize] && !self.gone[output as usize]
    }

    pub(super) fn is_gone(&self, output: u32) -> bool {
        self.gone[output as usize]
    }

    /// Whether an output waits for the token of an input.
    pub(super) fn depends(&self, output: u32, input: u32) -> bool {
        self.expected[input as usize] && self.waiting[input as usize].contains(&output)
    }

    /// Whether a switch has seen and sent all its tokens.
    pub(super) fn done(&self, switch: u32) -> bool {
        let switch = switch as usize;
        self.started[switch] && self.inputs_left[switch] == 0 && self.outputs_left[switch] == 0
    }

    pub(super) fn reset(&mut self) {
        self.expected.fill(false);
        self.missing.fill(0);
        self.gone.fill(false);
        self.takes_part.fill(false);
        self.waiting.iter_mut().for_each(Vec::clear);
        self.inputs_left.fill(0);
        self.outputs_left.fill(0);
        self.started.fill(false);
    }
}
