package main

import (
	"sealbridge/gateway/home"
	"sealbridge/gateway/tools"
)

// toolsOf are the owner's tool servers as config.yaml names them.
func toolsOf(h *home.Home) (out []tools.Server, err error) {
	for _, name := range h.ToolNames() {
		s, err := h.AtHome(h.Config.Tools[name])
		if err != nil {
			return nil, err
		}
		secrets, err := s.ReadSecrets()
		if err != nil {
			return nil, err
		}
		wait, err := s.Wait()
		if err != nil {
			return nil, err
		}
		out = append(out, tools.Server{Name: name, Command: s.Command, URL: s.URL, Files: s.Files, Secrets: secrets, Timeout: wait})
	}
	return out, nil
}

// useTools takes the servers of a config.yaml that was read again.
func useTools(h *home.Home, lent *tools.Tools) error {
	servers, err := toolsOf(h)
	if err != nil {
		return err
	}
	return lent.Use(servers)
}
