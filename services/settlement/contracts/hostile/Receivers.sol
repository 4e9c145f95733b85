// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A depositor of the coin that refuses the coin, or makes a call when it receives the coin
contract CoinReceiver {
    bool public refuses;
    address private _target;
    bytes private _call;

    /// @notice The call was made, and this is what came back.
    event Reentered(bool success, bytes result);

    /// @notice Sends a call, with coin.
    function act(address target, bytes calldata data) external payable {
        (bool success, bytes memory result) = target.call{value: msg.value}(data);
        if (!success) {
            assembly {
                revert(add(result, 32), mload(result))
            }
        }
    }

    /// @notice Sets whether the coin is refused.
    function refuse(bool refuses_) external {
        refuses = refuses_;
    }

    /// @notice Sets the call that is made at each receipt of the coin.
    function arm(address target, bytes calldata data) external {
        _target = target;
        _call = data;
    }

    receive() external payable {
        require(!refuses, "refused");
        if (_target != address(0)) {
            (bool success, bytes memory result) = _target.call(_call);
            emit Reentered(success, result);
        }
    }
}

/// @title What forces its coin upon an address
contract Forcer {
    constructor(address payable to) payable {
        selfdestruct(to);
    }
}
