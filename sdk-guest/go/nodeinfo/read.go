package nodeinfo

import (
	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/protobuf"
)

// Fields of messages, by their numbers in generated.proto of k8s.io/api/core/v1.
const (
	podSpec, podStatus = 2, 3

	specContainers, specInitContainers, specOverhead, specResources = 2, 20, 32, 40

	containerName, containerPorts, containerResources, containerRestartPolicy = 1, 6, 8, 24

	portHostPort, portProtocol, portHostIP = 2, 4, 5

	resourcesRequests = 2

	statusConditions, statusContainers, statusInitContainers, statusAllocated, statusResources = 2, 8, 10, 19, 20

	conditionType, conditionReason = 1, 5

	containerStatusName, containerStatusAllocated, containerStatusResources = 1, 10, 11
)

// pod is what of a pod counts.
type pod struct {
	containers, initContainers []container
	overhead, podLevel         list
	hostPorts                  []HostPort
	reported                   reported
	// isInfeasible is whether the pod is to be resized and cannot be.
	isInfeasible bool
}

type container struct {
	name      []byte
	isSidecar bool
	requested list
	reported  reported
}

// reported is what kubelet says of a container, or of a pod as a whole: what it
// has granted, and what is set up.
type reported struct {
	isThere, hasResources bool
	allocated, actuated   list
}

func read(object []byte) (*pod, error) {
	var spec, status []byte
	err := protobuf.Each(object, func(field *protobuf.Fields) error {
		switch field.Number {
		case podSpec:
			spec = field.Bytes
		case podStatus:
			status = field.Bytes
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := new(pod)
	if err := found.readSpec(spec); err != nil {
		return nil, err
	}
	return found, found.readStatus(status)
}

func (p *pod) readSpec(spec []byte) (err error) {
	if p.overhead, err = quantities(spec, specOverhead); err != nil {
		return err
	}
	return protobuf.Each(spec, func(field *protobuf.Fields) (err error) {
		switch field.Number {
		case specInitContainers:
			var found container
			found, err = readContainer(field.Bytes)
			p.initContainers = append(p.initContainers, found)
			if err == nil && found.isSidecar {
				err = p.readPorts(field.Bytes)
			}
		case specContainers:
			var found container
			found, err = readContainer(field.Bytes)
			p.containers = append(p.containers, found)
			if err == nil {
				err = p.readPorts(field.Bytes)
			}
		case specResources:
			p.podLevel, err = quantities(field.Bytes, resourcesRequests)
		}
		return err
	})
}

func readContainer(message []byte) (found container, err error) {
	err = protobuf.Each(message, func(field *protobuf.Fields) (err error) {
		switch field.Number {
		case containerName:
			found.name = field.Bytes
		case containerResources:
			found.requested, err = quantities(field.Bytes, resourcesRequests)
		case containerRestartPolicy:
			found.isSidecar = string(field.Bytes) == string(v1.ContainerRestartPolicyAlways)
		}
		return err
	})
	return found, err
}

func (p *pod) readPorts(container []byte) error {
	return protobuf.Each(container, func(field *protobuf.Fields) error {
		if field.Number != containerPorts {
			return nil
		}
		port := HostPort{anyIP, string(v1.ProtocolTCP), int32(protobuf.Value(field.Bytes, portHostPort))}
		if port.Port <= 0 {
			return nil
		}
		if ip := protobuf.Bytes(field.Bytes, portHostIP); len(ip) > 0 {
			port.IP = string(ip)
		}
		if protocol := protobuf.Bytes(field.Bytes, portProtocol); len(protocol) > 0 {
			port.Protocol = intern(protocol)
		}
		p.hostPorts = append(p.hostPorts, port)
		return nil
	})
}

func (p *pod) readStatus(status []byte) error {
	hasResize, unreported := false, p.byName()
	err := protobuf.Each(status, func(field *protobuf.Fields) (err error) {
		switch field.Number {
		case statusConditions:
			// The first of its type counts.
			if !hasResize && string(protobuf.Bytes(field.Bytes, conditionType)) == string(v1.PodResizePending) {
				hasResize = true
				p.isInfeasible = string(protobuf.Bytes(field.Bytes, conditionReason)) == v1.PodReasonInfeasible
			}
		case statusContainers, statusInitContainers:
			name := protobuf.Bytes(field.Bytes, containerStatusName)
			if container := unreported[string(name)]; container != nil {
				delete(unreported, string(name))
				container.reported, err = readReported(field.Bytes, containerStatusAllocated, containerStatusResources)
			}
		}
		return err
	})
	if err == nil {
		p.reported, err = readReported(status, statusAllocated, statusResources)
	}
	return err
}

// byName are the containers by their names.
func (p *pod) byName() map[string]*container {
	found := make(map[string]*container, len(p.containers)+len(p.initContainers))
	for _, containers := range [][]container{p.containers, p.initContainers} {
		for i := range containers {
			found[string(containers[i].name)] = &containers[i]
		}
	}
	return found
}

func readReported(status []byte, allocated, resources int) (reported, error) {
	found := reported{isThere: true}
	err := protobuf.Each(status, func(field *protobuf.Fields) (err error) {
		if field.Number == resources {
			found.hasResources = true
			found.actuated, err = quantities(field.Bytes, resourcesRequests)
		}
		return err
	})
	if err == nil {
		found.allocated, err = quantities(status, allocated)
	}
	return found, err
}
