//! How often to ask what is mostly answered in vain.

/// Asks the more rarely, the more often it was in vain.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Answers in vain, one after the other.
    vain: u32,
    /// Occasions to let pass.
    wait: u32,
    /// So many answers in vain do not matter.
    tolerance: u32,
}

impl Patience {
    /// Bears with so many answers in vain, one after the other.
    pub(crate) fn with_tolerance(tolerance: u32) -> Self {
        Self { tolerance, ..Self::default() }
    }

    /// An occasion: whether to ask.
    pub(crate) fn asks(&mut self) -> bool {
        let asks = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        asks
    }

    /// What came of it: how many of all are wanted, if that is known.
    pub(crate) fn learn_wanted(&mut self, wanted: Option<usize>, all: usize) {
        self.learn(wanted.is_none_or(|wanted| wanted > all / 4 * 3));
    }

    /// What came of it.
    pub(crate) fn learn(&mut self, was_in_vain: bool) {
        self.vain = if was_in_vain { (self.vain + 1).min(10 + self.tolerance) } else { 0 };
        self.wait = (1 << self.vain.saturating_sub(self.tolerance)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_more_and_more_rarely_until_it_is_worth_it() {
        let mut patience = Patience::default();
        let ask = |patience: &mut Patience| {
            let asks = patience.asks();
            if asks {
                patience.learn(true);
            }
            asks
        };
        let asked: Vec<usize> = (0..40).filter(|_| ask(&mut patience)).collect();
        assert_eq!(asked, [0, 2, 6, 14, 30]);
        patience.learn(false);
        assert!(patience.asks() && patience.asks());
        let mut patience = Patience::with_tolerance(3);
        let asked: Vec<usize> = (0..20).filter(|_| ask(&mut patience)).collect();
        assert_eq!(asked, [0, 1, 2, 3, 5, 9, 17]);
    }
}
