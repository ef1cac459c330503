package mcptools

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// waitingAnswer is an answer that says what its agent's owner is asked.
type waitingAnswer interface{ asksOwner() string }

func (a askAnswer) asksOwner() string {
	if a.URL == "" {
		return ""
	}
	return a.Ask
}

func (a delegated) asksOwner() string {
	if a.Joined {
		return "" // it was shown when it was asked
	}
	return a.Ask
}

func (a severalAnswer) asksOwner() string {
	if a.Joined || len(a.Tasks) == 0 {
		return ""
	}
	return a.Tasks[0].Ask // one card at a time: the console has the others beside it
}

const (
	cardStays = 2 * time.Minute // how long a client may take to say that it has shown a card
	maxCards  = 2               // of one agent at once
)

// showCard offers the card of what the owner is asked to a client that can open
// a URL (A15). It is an offer beside the tool's answer, which waits for nothing:
// the link shows and never decides (G9), and what the client says to it is not read.
func (c caller) showCard(ctx context.Context, s *mcp.ServerSession, answer any) {
	w, ok := answer.(waitingAnswer)
	if !ok || w.asksOwner() == "" || !opensURLs(s) {
		return
	}
	ask := w.asksOwner()
	url := c.Gateway.CardURL(ask)
	if url == "" {
		return
	}
	back, err := c.take(c.cards, c.agent.Name, maxCards)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cardStays)
	go func() { // ends with the client's answer, its connection or the time
		defer back()
		defer cancel()
		_, err := s.Elicit(ctx, &mcp.ElicitParams{Mode: "url", URL: url, ElicitationID: ask,
			Message: "Your yes or no is waited for. This opens the card; you decide there or in your terminal, not here."})
		if err != nil {
			c.Log.Info("no card was shown", "agent", c.agent.Name, "error", err)
		}
	}()
}

// opensURLs says whether the client said that it can.
func opensURLs(s *mcp.ServerSession) bool {
	if s == nil {
		return false
	}
	p := s.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && p.Capabilities.Elicitation.URL != nil
}
